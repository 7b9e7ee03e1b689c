"""Compaction of one partition: a child process writes the records that stay, and its output replaces the old segments.

Order of effects: a resume point beyond the sources is on disk → the child writes `.cleaned` files → one output after the other is
swapped in (`libs/commitlog/segments/swapping.py`) → the caller writes cleaner-offset-checkpoint → the old files go after
file.delete.delay.ms. Meanwhile the log may grow, be truncated, lose segments or be deleted. Output that does not fit any more is
thrown away.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence
from functools import partial

from libs.commitlog.cleaner.cleaning import clean, remove_cleaned
from libs.commitlog.cleaner.job import CleanedSegment, CleanJob, CleanResult, ProducerEnds, SourceSegment
from libs.commitlog.cleaner.planning import CleanPlan
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import NO_DESCRIPTORS
from libs.commitlog.model.errors import NO_ROOM, LogDamaged, LogWriteError, SyncFailed
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.commitlog.segments.index import INTERVAL_BYTES_MAX
from libs.commitlog.segments.segment import Segment
from libs.lean_dataclass import dataclass
from libs.runtime.children import Children
from services.storage.disks.disk_reads import PATIENCE_S, DiskReads, TooManyReads
from services.storage.disks.disks import Disk
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.threads.quiet_times import quiet_s

ROUNDS_MAX = 3
"""Sync rounds to wait for: the running one may have begun before the resume point was requested."""
_NOT_THE_DISKS_FAULT = (*NO_ROOM, *NO_DESCRIPTORS, errno.ENOENT)


class LogChanged(Exception):
    """The cleaned segments are gone, or are not ready yet. Nothing was harmed."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The resources of one run."""

    children: Children
    map_bytes: int
    bytes_per_second: float


class Compaction:
    """The compaction of any partition, in the given children."""

    def __init__(self, fs: FileSystem, open_logs: OpenLogs[Disk], log_starts: LogStartOffsets, reads: DiskReads) -> None:
        self._fs = fs
        self._open_logs = open_logs
        self._log_starts = log_starts
        self._reads = reads

    async def run(
        self,
        partition: Partition,
        disk: Disk,
        plan: CleanPlan,
        allowance: Allowance,
        now_ms: int,
        on_progress: Callable[[object], None],
    ) -> CleanResult:
        """Compacts a log. Cancelling it ends the child. Raises LogChanged, LogDamaged, LogWriteError, ChildDied, OSError."""
        await self._make_ready(partition, disk, plan.end_offset)
        bases = {source.base_offset for source in plan.sources}
        sources = {segment.base_offset: segment for segment in partition.log.segments if segment.base_offset in bases}
        if len(sources) != len(bases):
            raise LogChanged("segments left while it was made ready")
        lineage = partition.log.lineage
        try:
            aborted, known = await self._aborted(partition, plan), partition.log.producers.view()
            producers = await disk.files.submit(partial(ProducerEnds.of, known))
            job = job_of(partition, plan, allowance, now_ms, aborted, producers)
            result = await self._cleaned(partition, allowance.children, job, on_progress)
            for cleaned in result.segments:
                await self._swap(partition, disk, cleaned, [sources[base] for base in cleaned.sources])
        except TooManyReads as error:
            raise LogChanged("too many reads wait for its disk") from error
        except SyncFailed as error:
            disk.sync.fail(error)  # the failure is known to the child alone
            raise
        except (OSError, LogDamaged) as error:
            if partition.log.lineage is not lineage or not self._still_there(partition, list(sources.values())):
                raise LogChanged("the log was cut, or segments left, while it was read") from error
            raise
        finally:
            await self._sweep(partition, disk)
        if self._open_logs.is_in_use(partition):
            # The log may have been cut since, or be about to be: what comes then was not cleaned.
            disk.cleaned_offsets[partition.key] = min(result.end_offset, partition.log.truncated_to)
        return result

    async def _make_ready(self, partition: Partition, disk: Disk, end_offset: int) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._open_logs.is_in_use(partition):
                break
            if partition.log.want_resume_point(end_offset):
                return
            partition.sync.request_round(partition)
            partition.sync.start_round()
            await partition.sync.wait_for_round()
        if not (self._open_logs.is_in_use(partition) and partition.log.want_resume_point(end_offset)):
            raise LogChanged("no resume point lies beyond it yet")

    async def _aborted(self, partition: Partition, plan: CleanPlan) -> Sequence[AbortedTransaction]:
        """The aborted transactions among the sources. Raises LogDamaged, OSError (TimeoutError is one), TooManyReads."""

        def lookup() -> Sequence[AbortedTransaction]:
            partition_log = partition.log
            return partition_log.aborted.between(partition_log.segments, plan.sources[0].base_offset, plan.end_offset)

        return await self._reads.look_up(lookup, PATIENCE_S)

    async def _cleaned(
        self, partition: Partition, children: Children, job: CleanJob, on_progress: Callable[[object], None]
    ) -> CleanResult:
        running = children.run(clean, job, on_progress, quiet_s=quiet_s(job.segment_bytes))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=1.0)
                if not self._open_logs.is_in_use(partition):
                    raise LogChanged("the partition left")
            return running.result()
        finally:
            running.cancel()

    async def _swap(self, partition: Partition, disk: Disk, cleaned: CleanedSegment, sources: Sequence[Segment]) -> None:
        swap = partition.log.plan_swap(sources, cleaned.size) if self._open_logs.is_in_use(partition) else None
        if swap is None:
            raise LogChanged("segments left while they were cleaned")
        try:
            staged = await disk.files.submit(partial(swap.stage, self._fs))
            if not (staged and self._open_logs.is_in_use(partition) and partition.log.replace_segments(swap, sources)):
                await disk.files.submit(partial(swap.discard, self._fs))
                raise LogChanged("the log was cut while it was cleaned")
            partition.sync.request_round(partition)  # the round removes what was saved for the replaced segments
            partition.sync.start_round()
            paths = await disk.files.submit(partial(swap.settle, self._fs))
        except OSError as error:
            if error.errno not in _NOT_THE_DISKS_FAULT:
                disk.sync.fail(error)
            with contextlib.suppress(OSError):
                await disk.files.submit(partial(swap.discard, self._fs))
            raise
        except LogWriteError as error:
            disk.sync.fail(error)
            raise
        self._log_starts.remove_later(disk, paths, partition.config.file_delete_delay_ms / 1000)

    async def _sweep(self, partition: Partition, disk: Disk) -> None:
        """Removes output that was not swapped in, or that a killed child left. If it fails, the next opening does it."""
        if self._open_logs.is_in_use(partition):
            with contextlib.suppress(OSError):
                await disk.files.submit(partial(remove_cleaned, self._fs, partition.log.directory))

    @staticmethod
    def _still_there(partition: Partition, sources: list[Segment]) -> bool:
        here = {id(segment) for segment in partition.log.segments}
        return all(id(segment) in here for segment in sources)


def job_of(
    partition: Partition,
    plan: CleanPlan,
    allowance: Allowance,
    now_ms: int,
    aborted: Sequence[AbortedTransaction],
    producers: ProducerEnds,
) -> CleanJob:
    partition_log, config = partition.log, partition.config
    return CleanJob(
        directory=partition_log.directory,
        segments=tuple(SourceSegment(source.base_offset, source.next_offset, source.size) for source in plan.sources),
        log_start_offset=partition_log.log_start_offset,
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=min(config.index_interval_bytes, INTERVAL_BYTES_MAX),
        max_message_bytes=config.max_message_bytes,
        map_bytes=allowance.map_bytes,
        bytes_per_second=allowance.bytes_per_second,
        producers=producers,
        aborted=tuple(aborted),
    )
