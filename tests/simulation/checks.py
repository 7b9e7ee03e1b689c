"""What must hold of a disk that was just recovered. Each check says what it found; the first that fails ends the run."""

from bisect import bisect_left
from dataclasses import dataclass
from random import Random

from libs.commitlog.errors import DirectoryDamaged, LogDamaged
from libs.commitlog.log import Log
from libs.commitlog.producers import Duplicate
from libs.commitlog.segment import Segment
from libs.wire.batches import BatchError, BatchHeader, iter_batches
from tests.commitlog.harness import offset_for_timestamp
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel, PartitionModel
from tests.simulation.node import Node


class Broken(AssertionError):
    """The log promised something that the disk does not hold."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a log held: the first `count` batches of `partition`."""

    partition: PartitionModel
    count: int


Findings = dict[bytes, Recovered]
"""By topic id."""


def check_disk(node: Node, model: DiskModel, random: Random, earlier: Findings | None = None) -> Findings:
    """`earlier`: what a recovery before this one held, which may have lost more since, but can have gained nothing."""
    if earlier is None and model.clean not in (None, node.directory.was_clean):
        raise Broken(f"was_clean is {node.directory.was_clean}")
    if node.directory.directory_id != model.directory_id:
        raise Broken("the directory changed its id")
    listed = {found.topic_id: found for found in node.listed}
    if len(listed) != len(node.listed):
        raise Broken("a topic id is listed twice")
    for topic_id, found in listed.items():
        partition = model.partitions.get(topic_id)
        if partition is None or partition.stage == "gone":
            raise Broken(f"{found.path} is back, it was deleted")
    findings: Findings = {}
    for topic_id, partition in model.partitions.items():
        if partition.stage == "present" and partition.named and topic_id not in listed:
            raise Broken(f"{partition} is gone, its creation had ended")
        if topic_id in listed:
            held = Recovered(partition, len(partition.headers)) if earlier is None else earlier.get(topic_id)
            if held is None:  # a process that was killed had begun to delete it, and the next one saw no more of it
                if partition.stage != "deleting" and partition.named:
                    raise Broken(f"{partition} is here, an earlier recovery did not see it")
                held = Recovered(partition, len(partition.headers))
            findings[topic_id] = check_log(node.logs[topic_id], node.disk, held, random)
            if node.directory.was_clean and node.logs[topic_id].scanned_bytes:
                raise Broken(f"{partition} was read again after a clean stop")
    return findings


def check_log(log: Log, disk: SimulatedDisk, held: Recovered, random: Random) -> Recovered:
    content = _content(log, disk)
    partition = held.partition
    if not partition.data.startswith(content) and partition.refused:
        partition = partition.with_refused(content)
        held = Recovered(partition, len(partition.headers))
        disk.sometimes("a refused append left batches")
    if not partition.data.startswith(content):
        raise Broken(f"{partition} holds bytes that were never appended to it, or were cut off")
    count = partition.count_of(len(content))
    if count is None:
        raise Broken(f"{partition} ends within a batch, at byte {len(content)}")
    if count > held.count:
        raise Broken(f"{partition} holds {count} batches, an earlier recovery {held.count}")
    end = partition.end_of(count)
    if log.log_end_offset != end:
        raise Broken(f"{partition} ends at {log.log_end_offset}, its last batch at {end}")
    if end < partition.floor:
        raise Broken(f"{partition} ends at {end}, but {partition.floor} was durable")
    if max(log.durable_offset, log.recovery_point) > end:
        raise Broken(f"{partition}: durable {log.durable_offset} beyond {end}")
    if log.log_start_offset != 0:
        raise Broken(f"{partition} starts at {log.log_start_offset}")
    epochs = partition.epochs(count)
    if log.epochs.entries() != epochs:
        raise Broken(f"{partition}: epochs {log.epochs.entries()}, the batches say {epochs}")
    _check_producers(log, partition, count, disk)
    _check_transactions(log, partition, count, disk)
    _check_files(log, disk, partition)
    for segment in log.segments:
        _check_segment(segment, disk)
    if count:
        _check_lookups(log, partition, count, random)
    return Recovered(partition, count)


def _content(log: Log, disk: SimulatedDisk) -> bytes:
    parts = []
    for segment in log.segments:
        size = disk.size(segment.file.handle.fd)
        if size != segment.size:
            raise Broken(f"{segment.file.path} has {size} bytes, the log counts {segment.size}")
        parts.append(disk.pread(segment.file.handle.fd, size, 0))
    return b"".join(parts)


def _check_producers(log: Log, partition: PartitionModel, count: int, disk: SimulatedDisk) -> None:
    expected, entries = partition.producers(count), log.producers.entries
    if partition.rewound:  # as in Kafka, what was saved before the cut may hold only the last batch of each
        shorter = {
            producer: entry._replace(batches=entry.batches[-len(entries[producer].batches) :])
            for producer, entry in expected.items()
            if producer in entries and entries[producer].batches
        }
        expected = shorter if len(shorter) == len(expected) else expected
    if entries != expected:
        raise Broken(f"{partition}: producers {entries}, the log says {expected}")
    disk.sometimes("open transaction recovered", any(entry.transaction_first_offset >= 0 for entry in expected.values()))
    for header in partition.headers[max(0, count - 1) : count]:
        if header.producer_id >= 0 and not header.is_control:
            try:
                answer = log.producers.check(header)
            except BatchError as error:
                raise Broken(f"{partition}: a durable batch sent again is refused: {error}") from error
            duplicate = isinstance(answer, Duplicate) and answer.base_offset == header.base_offset
            if not duplicate:
                raise Broken(f"{partition}: the batch at {header.base_offset} is not recognised when it is sent again")
            disk.sometimes("duplicate recognised after recovery")


def _check_transactions(log: Log, partition: PartitionModel, count: int, disk: SimulatedDisk) -> None:
    aborted, going = partition.transactions(count)
    end = partition.end_of(count)
    if [first for first, _ in log.producers.transactions.ongoing] != going:
        raise Broken(f"{partition}: open transactions {log.producers.transactions.ongoing}, the batches say {going}")
    stable = min(going, default=end)
    if log.last_stable_offset(end) != stable:
        raise Broken(f"{partition}: last stable offset {log.last_stable_offset(end)}, the batches say {stable}")
    found = log.aborted.between(log.segments, 0, end + 1)
    if found != aborted:
        raise Broken(f"{partition}: aborted {found}, the batches say {aborted}")
    disk.sometimes("aborted transaction recovered", bool(aborted))
    disk.sometimes("aborted transaction recovered from its index", any(one.last_offset < log.recovery_point for one in aborted))


def _check_files(log: Log, disk: SimulatedDisk, partition: PartitionModel) -> None:
    stems = {f"{segment.base_offset:020d}" for segment in log.segments}
    for name in disk.list_directory(log.directory):
        stem, _, suffix = name.partition(".")
        if name.endswith(".tmp"):
            raise Broken(f"{partition}: {name} was left over")
        if suffix in ("log", "index", "timeindex", "txnindex"):
            if stem not in stems:
                raise Broken(f"{partition}: {name} belongs to no segment")
        elif suffix in ("snapshot", "resume") and int(stem) > log.log_end_offset:
            raise Broken(f"{partition}: {name} is beyond the end {log.log_end_offset}")


def _check_segment(segment: Segment, disk: SimulatedDisk) -> None:
    """Every index entry is true, and in order."""
    batches = list(_batches(disk.pread(segment.file.handle.fd, segment.size, 0)))
    if batches and batches[0][1].base_offset < segment.base_offset:
        raise Broken(f"{segment.file.path} begins before its name")
    places = dict(batches)
    previous = -1
    for slot in range(segment.offset_index.count):
        relative, position = segment.offset_index.entry(slot)
        header = places.get(position)
        sound = header is not None and header.last_offset - segment.base_offset == relative and relative > previous
        if not sound:
            raise Broken(f"{segment.file.path}: index entry {slot} is {relative} at {position}")
        previous = relative
    moments = {header.last_offset - segment.base_offset: header.max_timestamp for _, header in batches}
    newest = (-1, -1)
    for slot in range(segment.time_index.count):
        timestamp, relative = segment.time_index.entry(slot)
        sound = moments.get(relative) == timestamp and timestamp > newest[0] and relative > newest[1]
        if not sound:
            raise Broken(f"{segment.file.path}: time entry {slot} is {timestamp}, {relative}")
        newest = (timestamp, relative)
    greatest = max((header.max_timestamp for _, header in batches), default=-1)
    if segment.max_timestamp != greatest:
        raise Broken(f"{segment.file.path}: greatest timestamp {segment.max_timestamp}, not {greatest}")


def _batches(content: bytes) -> list[tuple[int, BatchHeader]]:
    found, position = [], 0
    for batch in iter_batches(content):
        found.append((position, batch.header))
        position += batch.header.size
    return found


def _check_lookups(log: Log, partition: PartitionModel, count: int, random: Random) -> None:
    """A lookup answers as reading everything would."""
    headers = partition.headers[:count]
    end = headers[-1].last_offset + 1
    for offset in {0, end - 1, random.randrange(end), random.randrange(end)}:
        header = headers[bisect_left(headers, offset, key=lambda h: h.last_offset)]
        try:
            piece = log.read(offset, 1, end, at_least_one_batch=True)
        except LogDamaged as damage:
            raise Broken(f"{partition} cannot be read at {offset}: {damage}") from damage
        if piece is not None and piece.first_offset != header.base_offset:
            raise Broken(f"{partition}: a read at {offset} gives {piece}")
    latest = max(header.max_timestamp for header in headers)
    for timestamp in (latest, random.randrange(1000, latest + 2)):
        found = offset_for_timestamp(log, timestamp, end)
        holder = next((header for header in headers if header.max_timestamp >= timestamp), None)
        if holder is None:
            if found is not None:
                raise Broken(f"{partition}: {timestamp} is found at {found}, nothing is so late")
        else:
            right = found is not None and holder.base_offset <= found.offset <= holder.last_offset
            if not right:
                raise Broken(f"{partition}: {timestamp} is found at {found}, not in the batch at {holder.base_offset}")


def same_state(first: Node, second: Node) -> None:
    """Invariant 14: recovery twice equals recovery once."""
    for topic_id, log in second.logs.items():
        before = first.logs[topic_id]
        if log.cut_bytes != 0:
            raise Broken(f"{log.directory}: the second recovery cut {log.cut_bytes} bytes")
        for name in ("log_end_offset", "log_start_offset", "recovery_point", "durable_offset", "size"):
            if getattr(log, name) != getattr(before, name):
                raise Broken(f"{log.directory}: {name} differs after a second recovery")
        if log.producers.entries != before.producers.entries:
            raise Broken(f"{log.directory}: producers differ after a second recovery")
        if log.epochs.entries() != before.epochs.entries():
            raise Broken(f"{log.directory}: epochs differ after a second recovery")
        ends = [one.aborted.between(one.segments, 0, one.log_end_offset + 1) for one in (log, before)]
        if ends[0] != ends[1] or log.producers.transactions.ongoing != before.producers.transactions.ongoing:
            raise Broken(f"{log.directory}: transactions differ after a second recovery")


OPENING_ERRORS = (LogDamaged, DirectoryDamaged, OSError)
