"""The checks of a disk that was just recovered. Each names what it found; the first that fails ends the run."""

from bisect import bisect_left
from dataclasses import dataclass
from random import Random

from libs.commitlog.model.errors import DirectoryDamaged, LogDamaged
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import NO_OFFSET, CachedBatch, Duplicate, ProducerEntry
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.commitlog.segments.segment import Segment
from libs.wire.record_batches.batches import BatchError, BatchHeader, iter_batches
from tests.commitlog.harness import offset_for_timestamp
from tests.simulation.content import Content
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel, PartitionModel
from tests.simulation.node import Node


class Broken(AssertionError):
    """The log promised something that the disk does not hold."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A recovered log: the batches from `first` to `stop` of `content`, which is one of those that `partition` may show."""

    partition: PartitionModel
    content: Content
    first: int
    stop: int
    end: int
    start: int
    """Where readers see the log begin."""

    @property
    def headers(self) -> list[BatchHeader]:
        return self.content.headers[self.first : self.stop]

    @property
    def is_made_again(self) -> bool:
        """Whether the state beside the batches may have been rebuilt from what a cleaner left of them."""
        return self.partition.rewound and self.content.swaps > 0

    @property
    def is_as_appended(self) -> bool:
        return self.start == 0 and not self.content.swaps


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
        if topic_id in node.logs:
            before = earlier.get(topic_id) if earlier is not None else None
            # A process that was killed had begun to delete it, and the next one saw no more of it.
            if earlier is not None and before is None and partition.stage != "deleting" and partition.named:
                raise Broken(f"{partition} is here, an earlier recovery did not see it")
            findings[topic_id] = check_log(node.logs[topic_id], node.disk, partition, before, random)
            if node.directory.was_clean and node.logs[topic_id].scanned_bytes:
                raise Broken(f"{partition} was read again after a clean stop")
    _check_cleaned_offsets(node, model)
    if earlier is None and model.clean is not None:
        for name, lost in node.scanned.lost.items():
            if not any(
                name == (one.topic, one.index) and lost.is_of(one.topic_id) and one.stage in ("deleting", "gone")
                for one in model.partitions.values()
            ):
                raise Broken(f"{name} is said to have lost its directory")
    return findings


def _check_cleaned_offsets(node: Node, model: DiskModel) -> None:
    """No log counts as compacted further than it was, and no cleaned offset waits for the next log of its name."""
    for (topic_id, _), offset in node.cleaned_offsets.items():
        partition = model.partitions[topic_id]
        if offset > partition.claimed:
            raise Broken(f"{partition} counts as compacted up to {offset}, not {partition.claimed}")
    here = {found.topic_id for found in node.listed}
    for name, entry in node.directory.read_checkpoint(CLEANED_OFFSETS).items():
        former = model.partitions.get(entry.topic_id)
        if former is not None and not former.vanished and entry.topic_id not in here:
            raise Broken(f"{name} is free, and its cleaned offset is {entry.offset}")


def check_log(log: Log, disk: SimulatedDisk, partition: PartitionModel, before: Recovered | None, random: Random) -> Recovered:
    found, base = _content(log, disk), log.segments[0].base_offset
    if before is not None:
        partition = before.partition
    held = _recognised(log, partition, found, base)
    if held is None and partition.refused:
        contents = (partition.content, *partition.others)
        models = [partition.with_refused(content, found, base) for content in contents]
        held = next((held for model in models if (held := _recognised(log, model, found, base)) is not None), None)
        disk.sometimes("a refused append left batches", held is not None)
    if held is None:
        raise Broken(f"{partition} holds bytes that were never appended to it, or were cut off")
    partition, end, start = held.partition, held.end, held.start
    if partition.others:
        swaps = [content.swaps for content in (partition.content, *partition.others)]
        is_output = held.content.swaps == max(swaps)
        disk.sometimes("crash amid a swap showed the output", is_output)
        disk.sometimes("crash amid a swap showed the sources", not is_output)
    disk.sometimes("announced start held after a crash", start > partition.start_seen)
    disk.sometimes("start held after a crash", partition.start_seen > 0)
    if before is not None and end > before.end:
        raise Broken(f"{partition} ends at {end}, an earlier recovery at {before.end}")
    if before is not None and start < before.start:
        raise Broken(f"{partition} starts at {start}, an earlier recovery at {before.start}")
    _check_ends(log, held)
    reached = partition.epochs(end, start)
    known = [(epoch, at) for epoch, begun in log.epochs.entries() if (at := max(begun, start)) < end]
    reached = [entry for entry in reached if entry[1] < end]
    if known != reached and not (held.is_made_again and _are_later(known, reached)):
        raise Broken(f"{partition}: epochs {known}, the batches say {reached}")
    _check_producers(log, held, disk)
    _check_transactions(log, held, disk)
    _check_files(log, disk, partition)
    for segment in log.segments:
        check_segment(segment, disk)
    if end > start:
        _check_lookups(log, held, random)
    return held


def _are_later(known: list[tuple[int, int]], reached: list[tuple[int, int]]) -> bool:
    """Epochs begin with their first batch that is left."""
    starts = dict(reached)
    return all(epoch in starts and start >= starts[epoch] for epoch, start in known)


def _recognised(log: Log, partition: PartitionModel, found: bytes, base: int) -> Recovered | None:
    for content in (partition.content, *partition.others):
        match = content.match(found, base)
        if match is not None:
            return Recovered(partition, content, *match, log.log_end_offset, log.log_start_offset)
    return None


def _check_ends(log: Log, held: Recovered) -> None:
    """Checks the log's start and end, as readers see them and as the files show them."""
    partition, end, start, base = held.partition, held.end, held.start, log.segments[0].base_offset
    last = held.headers[-1].last_offset + 1 if held.headers else base
    following = held.content.headers[held.stop].base_offset if held.stop < len(held.content.headers) else partition.end
    if end != last and not (last < end <= max(following, start) and log.active.size == 0 and log.active.base_offset == end):
        raise Broken(f"{partition} ends at {end}, its last batch at {last}")
    if end < partition.floor:
        raise Broken(f"{partition} ends at {end}, but {partition.floor} was durable")
    if max(log.durable_offset, log.recovery_point) > end:
        raise Broken(f"{partition}: durable {log.durable_offset} beyond {end}")
    if not partition.start_seen <= start <= partition.start_said:
        raise Broken(f"{partition} starts at {start}, not between {partition.start_seen} and {partition.start_said}")
    if base > start:
        raise Broken(f"{partition} starts at {start}, its first segment at {base}")


def _content(log: Log, disk: SimulatedDisk) -> bytes:
    parts = []
    for segment in log.segments:
        size = disk.size(segment.file.handle.fd)
        if size != segment.size:
            raise Broken(f"{segment.file.path} has {size} bytes, the log counts {segment.size}")
        parts.append(disk.pread(segment.file.handle.fd, size, 0))
    return b"".join(parts)


def _check_producers(log: Log, held: Recovered, disk: SimulatedDisk) -> None:
    partition, entries = held.partition, dict(log.producers.entries)
    expected = partition.producers(held.end)
    if partition.rewound:  # as in Kafka, what was saved before the cut may hold only the last batch of each
        left = {header.last_offset for header in held.headers} if held.is_made_again else None
        marked = {header.producer_id for header in held.headers if header.is_control}
        expected = {
            producer: _begun_where_left(
                _as_known(entry, known, left, partition.batches_of(producer, held.end) if left is not None else []),
                *(known, producer, producer in marked, held, log),
            )
            if (known := entries.get(producer)) is not None
            else entry
            for producer, entry in expected.items()
            if producer in entries or not _is_gone(entry, log.segments[0].base_offset, left)
        }
    if entries != expected:
        raise Broken(f"{partition}: producers {entries}, the log says {expected}")
    disk.sometimes("open transaction recovered", any(entry.transaction_first_offset >= 0 for entry in expected.values()))
    for header in held.headers[-1:]:
        if header.producer_id >= 0 and not header.is_control:
            try:
                answer = log.producers.check(header)
            except BatchError as error:
                raise Broken(f"{partition}: a durable batch sent again is refused: {error}") from error
            duplicate = isinstance(answer, Duplicate) and answer.base_offset == header.base_offset
            if not duplicate:
                raise Broken(f"{partition}: the batch at {header.base_offset} is not recognised when it is sent again")
            disk.sometimes("duplicate recognised after recovery")


def _as_known(entry: ProducerEntry, known: ProducerEntry, left: set[int] | None, ever: list[CachedBatch]) -> ProducerEntry:
    """Of its last batches as many as are known, one at least. Where a cleaner took some, older ones may be known in their place,
    and what it left of a batch is younger than that was."""
    is_last_left = left is None or not entry.batches or entry.batches[-1].last_offset in left
    offsets = {batch.last_offset for batch in known.batches}
    if left is None:
        last = entry.batches[max(len(entry.batches) - max(len(offsets), 1), 0) :]
    else:
        last = tuple(one for one in ever if one.last_offset in offsets or (one is ever[-1] and is_last_left))
    batches = tuple(one._replace(timestamp=other.timestamp) for one, other in zip(last, known.batches, strict=False))
    return entry._replace(batches=batches + last[len(batches) :], last_timestamp=known.last_timestamp)


def _begun_where_left(
    entry: ProducerEntry, known: ProducerEntry, producer_id: int, is_marked: bool, held: Recovered, log: Log
) -> ProducerEntry:
    """A transaction whose marker was cut off begins with the first batch that a cleaner, or the log's start, had left; and who
    wrote the last marker is known as long as that is there. `is_marked`: some marker of the producer is left."""
    if not is_marked:
        entry = entry._replace(coordinator_epoch=known.coordinator_epoch)
    first_offset = entry.transaction_first_offset
    if first_offset in (NO_OFFSET, known.transaction_first_offset) or not (
        held.is_made_again or first_offset < log.segments[0].base_offset
    ):
        return entry
    first = _first_left(held, producer_id, entry.transaction_first_offset, held.end)
    return entry._replace(transaction_first_offset=NO_OFFSET if first is None else first)


def _first_left(held: Recovered, producer_id: int, first_offset: int, end: int) -> int | None:
    """The offset of the first data of a transaction that are still there."""
    return next(
        (
            one.base_offset
            for one in held.headers
            if one.producer_id == producer_id and one.is_transactional and not one.is_control
            if one.record_count and first_offset <= one.base_offset < end
        ),
        None,
    )


def _first_left_of(one: AbortedTransaction, held: Recovered) -> int | None:
    return _first_left(held, one.producer_id, one.first_offset, one.last_offset)


def _is_gone(entry: ProducerEntry, base_offset: int, left: set[int] | None) -> bool:
    """All of its batches left with the log's start; or a cleaner took them when it had later ones, which then were cut off."""
    if not entry.batches or entry.batches[-1].last_offset < base_offset:
        return True
    return left is not None and entry.batches[-1].last_offset not in left


def _check_transactions(log: Log, held: Recovered, disk: SimulatedDisk) -> None:
    partition, end, base = held.partition, held.end, log.segments[0].base_offset
    aborted, going = partition.transactions(end)
    if partition.rewound:  # each was held against what is left already
        going = sorted(first for entry in log.producers.entries.values() if (first := entry.transaction_first_offset) >= 0)
    if [first for first, _ in log.producers.transactions.ongoing] != going:
        raise Broken(f"{partition}: open transactions {log.producers.transactions.ongoing}, the batches say {going}")
    stable = max(min(going, default=end), held.start)
    if log.last_stable_offset(end) != stable:
        raise Broken(f"{partition}: last stable offset {log.last_stable_offset(end)}, the batches say {stable}")
    found = log.aborted.between(log.segments, 0, end + 1)
    there = [(one.producer_id, one.base_offset) for one in held.headers if one.is_transactional and one.record_count]
    must = [
        one
        for one in aborted
        if one.last_offset >= base
        and (
            not held.content.swaps
            or any(producer == one.producer_id and one.first_offset <= at < one.last_offset for producer, at in there)
        )
    ]
    if held.is_made_again:  # by what is left of their batches
        ends = [{(one.producer_id, one.last_offset) for one in some} for some in (must, found, aborted)]
        is_sound = ends[0] <= ends[1] <= ends[2]
    elif partition.rewound:  # what was cut and read again knows a transaction by what the log's start left of it
        seen = [
            [(one.producer_id, first, one.last_offset) for one in some if (first := _first_left_of(one, held)) is not None]
            for some in (must, found)
        ]
        is_sound = seen[0] == seen[1]
    else:
        is_sound = set(must) <= set(found) <= set(aborted) and (held.content.swaps > 0 or found == must)
    if not is_sound:
        raise Broken(f"{partition}: aborted {found}, the batches say {must}, {aborted} ever")
    disk.sometimes("aborted transaction recovered", bool(must))
    disk.sometimes("aborted transaction recovered from its index", any(one.last_offset < log.recovery_point for one in must))


def _check_files(log: Log, disk: SimulatedDisk, partition: PartitionModel) -> None:
    stems = {f"{segment.base_offset:020d}" for segment in log.segments}
    for name in disk.list_directory(log.directory):
        stem, _, suffix = name.partition(".")
        if name.endswith((".tmp", ".cleaned", ".swap", ".deleted")):
            raise Broken(f"{partition}: {name} was left over")
        if suffix in ("log", "index", "timeindex", "txnindex"):
            if stem not in stems:
                raise Broken(f"{partition}: {name} belongs to no segment")
        elif suffix in ("snapshot", "resume") and int(stem) > log.log_end_offset:
            raise Broken(f"{partition}: {name} is beyond the end {log.log_end_offset}")


def check_segment(segment: Segment, disk: SimulatedDisk) -> None:
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


def _check_lookups(log: Log, held: Recovered, random: Random) -> None:
    """A lookup answers as reading everything would."""
    partition, headers, end, start = held.partition, held.headers, held.end, held.start
    for offset in {start, end - 1, random.randrange(start, end), random.randrange(start, end)}:
        at = bisect_left(headers, offset, key=lambda h: h.last_offset)
        try:
            piece = log.read(offset, 1, end, at_least_one_batch=True)
        except LogDamaged as damage:
            raise Broken(f"{partition} cannot be read at {offset}: {damage}") from damage
        if piece is not None and (at == len(headers) or piece.first_offset != headers[at].base_offset):
            raise Broken(f"{partition}: a read at {offset} gives {piece}")
        if piece is None and at < len(headers):
            raise Broken(f"{partition}: a read at {offset} gives nothing, {headers[at]} is there")
    if not held.is_as_appended:
        return  # records, not batches, decide where the log starts or was cleaned
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
        if log.truncated_bytes != 0:
            raise Broken(f"{log.directory}: the second recovery cut {log.truncated_bytes} bytes")
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
