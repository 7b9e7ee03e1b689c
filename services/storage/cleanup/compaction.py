"""Compacts one partition: a child process writes what stays, and it takes the place of what was there.

Order of effects: a resume point beyond the sources is on disk → the child writes `.cleaned` files → one output after the other is
swapped in (`libs/commitlog/swapping.py`) → the caller writes cleaner-offset-checkpoint → the old files go when readers had their
time. The log may be appended to, cut, shortened or deleted meanwhile: what no longer fits is thrown away.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from libs.commitlog.cleaner.cleaning import clean, remove_cleaned
from libs.commitlog.cleaner.job import CleanedSegment, CleanJob, CleanResult, ProducerEnd, SourceSegment
from libs.commitlog.cleaner.planning import CleanPlan
from libs.commitlog.errors import LogDamaged, LogWriteError, SyncFailed
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.segment import Segment
from libs.commitlog.sync import NO_DESCRIPTORS, NO_ROOM
from libs.runtime.children import Children
from services.storage.disks import Disk
from services.storage.hosted import Hosted
from services.storage.quiet_times import quiet_s
from services.storage.residents import Residents
from services.storage.shortening import Shortening

ROUNDS_MAX = 3
"""Sync rounds to wait for: the one that runs may have begun before a resume point was asked for."""
_NOT_THE_DISKS_FAULT = (*NO_ROOM, *NO_DESCRIPTORS, errno.ENOENT)


class LogChanged(Exception):
    """What was cleaned is no longer there, or not yet ready. Nothing was harmed."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one run may take."""

    children: Children
    map_bytes: int
    bytes_per_second: float


class Compaction:
    """Of any partition, in whatever children it is given."""

    def __init__(self, fs: FileSystem, residents: Residents, shortening: Shortening) -> None:
        self._fs = fs
        self._residents = residents
        self._shortening = shortening

    async def run(
        self, hosted: Hosted, disk: Disk, plan: CleanPlan, allowance: Allowance, now_ms: int, tell: Callable[[object], None]
    ) -> CleanResult:
        """Raises LogChanged, LogDamaged, LogWriteError, ChildDied, OSError. Cancelling it ends the child."""
        await self._make_ready(hosted, disk, plan.end_offset)
        bases = {source.base_offset for source in plan.sources}
        sources = {segment.base_offset: segment for segment in hosted.log.segments if segment.base_offset in bases}
        if len(sources) != len(bases):
            raise LogChanged("segments left while it was made ready")
        lineage = hosted.log.lineage
        try:
            result = await self._cleaned(hosted, allowance.children, job_of(hosted, plan, allowance, now_ms), tell)
            for cleaned in result.segments:
                await self._swap(hosted, disk, cleaned, [sources[base] for base in cleaned.sources])
        except SyncFailed as error:
            disk.sync.fail(error)  # the child was told of it, and so nobody else will be
            raise
        except (OSError, LogDamaged) as error:
            if hosted.log.lineage is not lineage or not self._still_there(hosted, list(sources.values())):
                raise LogChanged("the log was cut, or segments left, while it was read") from error
            raise
        finally:
            await self._sweep(hosted, disk)
        if self._residents.has_open(hosted):
            disk.cleaned_offsets[hosted.topic, hosted.key[1]] = result.end_offset
        return result

    async def _make_ready(self, hosted: Hosted, disk: Disk, end_offset: int) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._residents.has_open(hosted):
                break
            if hosted.log.want_resume_point(end_offset):
                return
            hosted.sync.owe(hosted)
            hosted.sync.kick()
            await hosted.sync.quiet()
        if not (self._residents.has_open(hosted) and hosted.log.want_resume_point(end_offset)):
            raise LogChanged("no resume point lies beyond it yet")

    async def _cleaned(self, hosted: Hosted, children: Children, job: CleanJob, tell: Callable[[object], None]) -> CleanResult:
        running = children.run(clean, job, tell, quiet_s=quiet_s(job.segment_bytes))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=1.0)
                if not self._residents.has_open(hosted):
                    raise LogChanged("the partition left")
            return running.result()
        finally:
            running.cancel()

    async def _swap(self, hosted: Hosted, disk: Disk, cleaned: CleanedSegment, sources: Sequence[Segment]) -> None:
        swap = hosted.log.plan_swap(sources, cleaned.size) if self._residents.has_open(hosted) else None
        if swap is None:
            raise LogChanged("segments left while they were cleaned")
        try:
            staged = await disk.files.submit(partial(swap.stage, self._fs))
            if not (staged and self._residents.has_open(hosted) and hosted.log.replace_segments(swap, sources)):
                await disk.files.submit(partial(swap.discard, self._fs))
                raise LogChanged("the log was cut while it was cleaned")
            hosted.sync.owe(hosted)  # it removes what was saved for segments that went
            hosted.sync.kick()
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
        self._shortening.remove_later(disk, paths, hosted.config.file_delete_delay_ms / 1000)

    async def _sweep(self, hosted: Hosted, disk: Disk) -> None:
        """What the child wrote and nobody swapped in, or what it left when it was killed. If not now, the next opening does."""
        if self._residents.has_open(hosted):
            with contextlib.suppress(OSError):
                await disk.files.submit(partial(remove_cleaned, self._fs, hosted.log.directory))

    @staticmethod
    def _still_there(hosted: Hosted, sources: list[Segment]) -> bool:
        here = {id(segment) for segment in hosted.log.segments}
        return all(id(segment) in here for segment in sources)


def job_of(hosted: Hosted, plan: CleanPlan, allowance: Allowance, now_ms: int) -> CleanJob:
    found, config = hosted.log, hosted.config
    first_offset = plan.sources[0].base_offset
    return CleanJob(
        directory=found.directory,
        segments=tuple(SourceSegment(source.base_offset, source.next_offset, source.size) for source in plan.sources),
        log_start_offset=found.log_start_offset,
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
        map_bytes=allowance.map_bytes,
        bytes_per_second=allowance.bytes_per_second,
        producers={
            producer_id: ProducerEnd(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
            for producer_id, entry in found.producers.entries.items()
        },
        aborted=tuple(found.aborted.between(found.segments, first_offset, plan.end_offset)),
    )
