"""The cleaning of a partition's sealed segments: first the last offset of each key, then a copy of the records that stay.

Beside the segments it leaves complete `.cleaned` files or none. The same records stay as in Kafka 4.2.
"""

import contextlib
import threading
from collections.abc import Callable

from libs.clock import SystemClock
from libs.commitlog.cleaner.copying import Copier
from libs.commitlog.cleaner.job import CleanedSegment, CleanJob, CleanResult, SourceSegment
from libs.commitlog.cleaner.mapping import DirtySource, map_keys
from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.output import Output
from libs.commitlog.cleaner.pace import JobTime, Progress
from libs.commitlog.cleaner.planning import SourceSizes, group
from libs.commitlog.cleaner.source import Source
from libs.commitlog.cleaner.transactions import CleanedTransactions
from libs.commitlog.files.file_names import CLEANED, INDEX, TIME_INDEX, path_of
from libs.commitlog.files.filesystem import FileSystem, OsFileSystem
from libs.commitlog.files.sync import syncing
from libs.commitlog.segments.index import OFFSET_ENTRY, TIME_ENTRY

Report = Callable[[object], None]


def clean(job: CleanJob, report: Report) -> CleanResult:
    """A cleaning, as a job of a child process. Raises LogDamaged if a source is damaged, OSError if the disk refuses,
    SyncFailed."""
    return clean_with(OsFileSystem(), job, report, JobTime(SystemClock().monotonic, lambda s: threading.Event().wait(s)))


def clean_with(fs: FileSystem, job: CleanJob, report: Report, pace: JobTime) -> CleanResult:
    """Cleans as `clean` does. Whatever it raises, no `.cleaned` file is left, unless the disk refuses that too. Then the next
    opening removes it."""
    remove_cleaned(fs, job.directory)
    try:
        return _clean(fs, job, report, pace)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_cleaned(fs, job.directory)
        raise


def remove_cleaned(fs: FileSystem, directory: str) -> None:
    """Removes the files of an attempt that did not finish. Raises OSError."""
    for name in fs.list_directory(directory):
        if name.endswith(CLEANED):
            fs.unlink(f"{directory}/{name}")


def _clean(fs: FileSystem, job: CleanJob, report: Report, pace: JobTime) -> CleanResult:
    dirty = [segment for segment in job.segments if segment.next_offset > job.first_dirty_offset]
    total_bytes = sum(segment.size for segment in (*job.segments, *dirty))
    progress = Progress(pace, job.bytes_per_second, total_bytes, report)
    keys = OffsetMap(job.map_bytes)
    ends = [*(segment.base_offset for segment in dirty[1:]), job.end_offset]
    end_offset = map_keys(
        [DirtySource(Source(fs, job.directory, s, progress), s.base_offset, end) for s, end in zip(dirty, ends, strict=False)],
        job.first_dirty_offset,
        job.aborted,
        keys,
    )
    copier = Copier(job, keys, end_offset, CleanedTransactions(job.aborted))
    sources = [segment for segment in job.segments if segment.base_offset < end_offset]
    outputs: list[CleanedSegment] = []
    for members in group([_sizes(fs, job, s) for s in sources], job.segment_bytes, job.segment_index_bytes):
        segments = [SourceSegment(m.base_offset, m.next_offset, m.size) for m in members]
        outputs.append(_clean_group(fs, job, segments, copier, progress))
    with syncing():
        fs.fsync_directory(job.directory)
    return CleanResult(
        segments=tuple(outputs),
        end_offset=end_offset,
        bytes_read=progress.bytes_read,
        bytes_written=progress.bytes_written,
        records_read=copier.records_read,
        records_kept=copier.records_kept,
        keys=len(keys.offsets),
        seconds=progress.seconds,
        waited_seconds=progress.waited_s,
        unopened=copier.unopened,
        first_unopened=copier.first_unopened,
        why_unopened=copier.why_unopened,
    )


def _clean_group(
    fs: FileSystem, job: CleanJob, segments: list[SourceSegment], copier: Copier, progress: Progress
) -> CleanedSegment:
    copier.begin(sum(segment.size for segment in segments))
    output = Output(fs, job, segments[0].base_offset, progress)
    try:
        for segment in segments:
            source = Source(fs, job.directory, segment, progress)
            copier.copy(source, output)
        return output.finish(tuple(segment.base_offset for segment in segments), fs.modified_ms(source.path))
    finally:
        output.close()


def _sizes(fs: FileSystem, job: CleanJob, segment: SourceSegment) -> SourceSizes:
    entries = segment.size // max(job.index_interval_bytes, 1) + 1
    sizes = [
        fs.size_of(path) if fs.exists(path := path_of(job.directory, segment.base_offset, suffix)) else entries * entry.size
        for suffix, entry in ((INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY))
    ]
    return SourceSizes(segment.base_offset, segment.next_offset, segment.size, sizes[0], sizes[1])
