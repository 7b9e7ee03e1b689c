"""The judge of cleaner outputs in the simulation: by a plain look at all records it says what may go and what must."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from libs.commitlog.cleaner.job import CleanJob, CleanResult
from libs.commitlog.files.durable_files import read_file
from libs.wire.record_batches.batches import BatchHeader, iter_batches
from libs.wire.record_batches.records import Record, iter_records
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import PartitionModel


class WronglyCleaned(AssertionError):
    """The cleaner took what it must keep, kept what it must take, or made something up."""


class Keyed(NamedTuple):
    """The record at one offset. A tombstone has no value."""

    key: bytes
    value: bytes | None


class Entry(NamedTuple):
    record: Record
    header: BatchHeader


def read_cleaned(disk: SimulatedDisk, directory: str, base_offset: int) -> list[bytes]:
    content = read_file(disk, f"{directory}/{base_offset:020d}.log.cleaned")
    assert content is not None
    return [bytes(batch.view) for batch in iter_batches(content)]


def check_cleaned(
    disk: SimulatedDisk, partition: PartitionModel, job: CleanJob, result: CleanResult, outputs: Sequence[Sequence[bytes]]
) -> None:
    """Notes in the model, too, from when on tombstones and markers may go."""
    if job.end_offset > min(partition.durable, partition.stable()):
        raise WronglyCleaned(f"{partition} is cleaned up to {job.end_offset}, stable is {partition.stable()}")
    bases = {source.base_offset: source.next_offset for source in job.segments}
    taken = [base for cleaned in result.segments for base in cleaned.sources]
    begin, end = taken[0], bases[taken[-1]]
    content = partition.content
    before = content.batches(content.first_from(begin), content.first_from(end))
    after = [batch for output in outputs for batch in output]
    old, new = _entries(before), _entries(after)
    for offset, entry in new.items():
        if offset not in old or old[offset].record != entry.record:
            raise WronglyCleaned(f"{partition}: the cleaner made up the record at {offset}")
    aborted = _aborted_offsets(partition, old)
    latest: dict[bytes | None, int] = {}
    for offset, entry in old.items():
        if offset < result.end_offset and offset not in aborted and not entry.header.is_control:
            latest[entry.record.key] = offset
    for offset, entry in old.items():
        if offset >= result.end_offset:
            if offset not in new:
                raise WronglyCleaned(f"{partition}: the record at {offset} lies past {result.end_offset} and is gone")
            continue
        last = latest.get(entry.record.key, -1)
        is_superseded = not entry.header.is_control and last > offset
        useless = offset in aborted or (is_superseded and last >= job.first_dirty_offset)
        is_kept_for_now = entry.header.is_control or entry.record.value is None
        if offset in new:
            if useless:
                raise WronglyCleaned(f"{partition}: the record at {offset} is of no use and stays")
            if is_kept_for_now:
                partition.horizons.setdefault(offset, job.now_ms + job.delete_retention_ms)
        elif not (useless or is_superseded):
            if not is_kept_for_now:
                raise WronglyCleaned(f"{partition}: the record at {offset} is the latest of its key and is gone")
            if job.now_ms < partition.horizons.get(offset, 1 << 62) and not _says_nothing(partition, offset, entry, old):
                raise WronglyCleaned(f"{partition}: the tombstone or marker at {offset} goes too early")
            disk.sometimes("a tombstone or marker went")
    _check_producers(partition, job, before, after)
    earlier = _entries(content.batches(0, content.first_from(begin)))
    if shown := revived(_keyed(old, aborted), _keyed({**earlier, **new}, aborted)):
        raise WronglyCleaned(f"{partition}: the value at {shown[0]} is back, the tombstone that deleted it is gone")
    disk.sometimes("a log was cleaned again", job.first_dirty_offset > job.log_start_offset)
    disk.sometimes("several segments became one", any(len(cleaned.sources) > 1 for cleaned in result.segments))


def revived(before: Mapping[int, Keyed], after: Mapping[int, Keyed]) -> list[int]:
    """Offsets of values that a tombstone had deleted, and that readers see again, since it is gone and they are not."""
    gone = {entry.key: offset for offset, entry in sorted(before.items()) if offset not in after and entry.value is None}
    latest = {entry.key: offset for offset, entry in sorted(after.items())}
    return [
        offset
        for key, offset in sorted(latest.items(), key=lambda each: each[1])
        if offset < gone.get(key, -1) and after[offset].value is not None
    ]


def _keyed(entries: Mapping[int, Entry], aborted: Collection[int]) -> dict[int, Keyed]:
    """The entries that readers of committed records see."""
    return {
        offset: Keyed(record.key, record.value)
        for offset, (record, header) in entries.items()
        if record.key is not None and offset not in aborted and not header.is_control
    }


def _entries(batches: Sequence[bytes]) -> dict[int, Entry]:
    return {record.offset: Entry(record, BatchHeader.at(batch)) for batch in batches for record in iter_records(batch)}


def _aborted_offsets(partition: PartitionModel, entries: dict[int, Entry]) -> set[int]:
    spans = [(one.producer_id, one.first_offset, one.last_offset) for one in partition.transactions(partition.end)[0]]
    return {
        offset
        for offset, (_, header) in entries.items()
        if header.is_transactional
        and not header.is_control
        and any(header.producer_id == producer and first <= offset < last for producer, first, last in spans)
    }


def _says_nothing(partition: PartitionModel, offset: int, entry: Entry, old: dict[int, Entry]) -> bool:
    """A marker all of whose data went before, or lies before the log's first segment."""
    if not entry.header.is_control:
        return False
    earlier = [other for other, marker in partition.markers.items() if other < offset]
    ours = [
        header.base_offset
        for header in partition.appended
        if header.producer_id == entry.header.producer_id and header.is_control and header.base_offset in earlier
    ]
    begin = max(ours, default=-1)
    return not any(
        begin < other < offset and header.producer_id == entry.header.producer_id and not header.is_control
        for other, (_, header) in old.items()
    )


def _check_producers(partition: PartitionModel, job: CleanJob, before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """The last batch of each producer stays, with records or without.

    One that another followed when the pass began may go, also if that other one was cut off since. A resume point at the end of
    what is cleaned has the producers of that offset.
    """
    kept = {(header.producer_id, header.last_offset) for header in map(BatchHeader.at, after)}
    cleaned = {(header.producer_id, header.last_offset) for header in map(BatchHeader.at, before)}
    for producer, entry in partition.producers(partition.end).items():
        if entry.batches:
            last = producer, entry.batches[-1].last_offset
            known = job.producers.get(producer)
            was_last = known is None or known.last_data_offset <= last[1]
            if was_last and last in cleaned and last not in kept:
                raise WronglyCleaned(f"{partition}: the last batch of producer {producer}, at {last[1]}, is gone")
