"""Cleaned segments made by hand, and what a log must still hold once they are in place."""

from collections.abc import Callable, Sequence

from libs.commitlog.files.file_names import CLEANED, INDEX, LOG, TIME_INDEX, path_of
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.index import TIME_ENTRY
from libs.commitlog.segments.segment import Segment
from libs.commitlog.segments.swapping import SegmentSwap
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.records import iter_records

Keep = Callable[[bytes], bool]


def batches_of(log: Log) -> list[bytes]:
    """All batches, segment by segment."""
    return [segment.batch_at(place) for segment in log.segments for place in segment.walk(0, segment.size)]


def key_of(batch: bytes) -> bytes:
    """The key of a batch of one record."""
    (record,) = iter_records(batch)
    assert record.key is not None
    return record.key


def latest_of_each_key(log: Log, end_offset: int) -> Keep:
    """The batches before `end_offset` that compaction keeps."""
    latest = {key_of(batch): BatchHeader.at(batch).base_offset for batch in batches_of(log) if offset_of(batch) < end_offset}
    return lambda batch: latest[key_of(batch)] == offset_of(batch)


def offset_of(batch: bytes) -> int:
    return BatchHeader.at(batch).base_offset


def clean_by_hand(fs: FileSystem, sources: Sequence[Segment], directory: str, keep: Keep) -> int:
    """Writes the batches of `sources` that are kept beside them, durably. Returns the size."""
    base = sources[0].base_offset
    kept = [batch for source in sources for place in source.walk(0, source.size) if keep(batch := source.batch_at(place))]
    latest = (
        max((BatchHeader.at(batch).max_timestamp, BatchHeader.at(batch).last_offset - base) for batch in kept) if kept else None
    )
    content = b"".join(kept)
    files = {LOG: content, INDEX: b"", TIME_INDEX: TIME_ENTRY.pack(*latest) if latest else b""}
    for suffix, data in files.items():
        file = OpenFile(fs, fs.open_append(path_of(directory, base, suffix + CLEANED), create=True))
        if data:
            fs.pwritev(file.fd, [data], 0)
        fs.fdatasync(file.fd)
    fs.fsync_directory(directory)
    return len(content)


def swap_in(fs: FileSystem, log: Log, sources: Sequence[Segment], size: int) -> list[str]:
    """Swaps as the storage service does. Returns the files to be removed later."""
    swap = planned(log, sources, size)
    assert swap.stage(fs)
    assert log.replace_segments(swap, sources)
    return swap.settle(fs)


def planned(log: Log, sources: Sequence[Segment], size: int) -> SegmentSwap:
    swap = log.plan_swap(sources, size)
    assert swap is not None
    return swap
