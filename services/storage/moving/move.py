"""One replica on its way from one log directory of this node to another: the copy of its log, and the work on it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.partition_log.future_log import FutureLog, Place
from libs.commitlog.partition_log.replicated_batches import NotReplicable, StartsBefore
from services.storage.disks.disks import Disk
from services.storage.partition.partition import Partition

T = TypeVar("T")

PIECE_BYTES = 1 << 20


class MoveFailed(Exception):
    """The move failed for good: the replica stays where it is."""


class CopyDiverged(Exception):
    """The copy is no beginning of the log any more, and starts again."""


class Move:
    """One move. The log is read on the event loop; the copy is written in the target's threads, one job at a time."""

    def __init__(self, partition: Partition, source: Disk, target: Disk) -> None:
        self.partition = partition
        self.source = source
        self.target = target
        self.copy: FutureLog | None = None
        self.must_reopen = False
        self.requested_at: float | None = None
        """The time of the last request that the state name the target."""
        self.cleaned_to = source.cleaned_offsets.get(partition.key)
        """The cleaned offset at the beginning. A cleaner run that ends later does not cover what was copied before."""
        self.working: asyncio.Future[object] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def lag(self) -> int:
        copied_to = self.copy.end_offset if self.copy is not None else self.partition.log.log_start_offset
        return max(0, self.partition.log.log_end_offset - copied_to)

    async def work(self, work: Callable[[], T]) -> T:
        """Runs work in a thread. A cancelled caller leaves it behind in `working`."""
        if self.working is not None and not self.working.done():
            await asyncio.wait([self.working])
        done = self.target.logs.submit(work)
        self.working = done  # type: ignore[assignment]
        return await asyncio.shield(done)

    async def begin(self, place: Place, moves: int) -> None:
        """Begins a copy. Raises OSError, LogDamaged."""
        log = self.partition.log
        start, lineage = log.log_start_offset, log.lineage
        first = log.read(start, 1, log.log_end_offset, at_least_one_batch=True)
        base = start if first is None else min(start, first.first_offset)
        self.must_reopen = False
        self.copy = await self.work(lambda: FutureLog.begin(place, base, start, moves, lineage))

    async def step(self, bytes_max: int = PIECE_BYTES) -> int:
        """Copies a piece, or makes the copy follow a change of the log. Returns the copied bytes; with 0 the copy may be
        complete.

        Raises CopyDiverged, and what `FutureLog` raises.
        """
        log, copy = self.partition.log, self.copy
        assert copy is not None
        if self.must_reopen:
            await self.work(copy.reopen)
            self.must_reopen = False
            return 0
        if log.lineage is not copy.lineage:
            lowest_end = copy.lineage.lowest_end()
            copy.lineage = log.lineage
            if lowest_end is not None and lowest_end < copy.end_offset:
                if lowest_end <= copy.log_start_offset:
                    raise CopyDiverged
                await self.work(lambda: copy.truncate_to(lowest_end))
            return 0
        at = copy.end_offset
        if at > log.log_end_offset or not self._continues_in_log(at):
            raise CopyDiverged
        if at == log.log_end_offset:
            return 0
        piece = log.read(max(at, log.log_start_offset), bytes_max, log.log_end_offset, at_least_one_batch=True)
        if piece is None:
            end = log.log_end_offset
            await self.work(lambda: copy.skip_to(end))
            return 0
        epoch = log.epochs.latest
        try:
            copied = await self.work(lambda: copy.copy(piece, epoch))
        except NotReplicable as error:
            if log.lineage is not copy.lineage:
                return 0  # the log was truncated while it was read
            if isinstance(error, StartsBefore):
                raise CopyDiverged from error
            raise
        if not copied and log.lineage is copy.lineage:
            raise LogDamaged(f"{log.directory}: no whole batch could be read at offset {at}")
        return copied

    def _continues_in_log(self, at: int) -> bool:
        """Whether the log still has what follows a copy that ends there. A log may start within the batch that begins there."""
        log = self.partition.log
        start = log.log_start_offset
        if at >= start:
            return True
        first = log.read(start, 1, log.log_end_offset, at_least_one_batch=True)
        return first is not None and first.first_offset == at

    @property
    def is_near(self) -> bool:
        """Whether so little is left, in the last segment, that another turn is not worth it."""
        log, copy = self.partition.log, self.copy
        if copy is None or self.must_reopen or copy.lineage is not log.lineage:
            return False
        if copy.end_offset == log.log_end_offset:
            return True
        if copy.end_offset < log.active.base_offset:
            return False
        left = log.read(max(copy.end_offset, log.log_start_offset), PIECE_BYTES, log.log_end_offset, at_least_one_batch=True)
        return left is not None and left.length < PIECE_BYTES

    @property
    def is_whole(self) -> bool:
        log, copy = self.partition.log, self.copy
        return copy is not None and copy.lineage is log.lineage and copy.end_offset == log.log_end_offset
