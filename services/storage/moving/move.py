"""One replica on its way from one log directory of this node to another: the copy of its log, and what is being done to it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from libs.commitlog.errors import LogDamaged
from libs.commitlog.future_log import FutureLog, Place
from libs.commitlog.replicated import NotReplicable, StartsBefore
from services.storage.disks import Disk
from services.storage.hosted import Hosted

T = TypeVar("T")

PIECE_BYTES = 1 << 20


class GivenUp(Exception):
    """The replica stays where it is."""


class CopiedInVain(Exception):
    """What was copied is no beginning of the log any more: the copy begins anew."""


class Move:
    """Its log is looked at on the event loop, its copy is written in the target's threads, one thing at a time."""

    def __init__(self, hosted: Hosted, source: Disk, target: Disk) -> None:
        self.hosted = hosted
        self.source = source
        self.target = target
        self.copy: FutureLog | None = None
        self.must_reopen = False
        self.asked_at: float | None = None
        """When the controller was asked last to name the target."""
        self.cleaned_to = source.cleaned_offsets.get((hosted.topic, hosted.key[1]))
        """What is copied may be of before a run that ends later."""
        self.working: asyncio.Future[object] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def lag(self) -> int:
        copied_to = self.copy.end_offset if self.copy is not None else self.hosted.log.log_start_offset
        return max(0, self.hosted.log.log_end_offset - copied_to)

    async def work(self, work: Callable[[], T]) -> T:
        """In a thread. Whoever cancels this leaves it behind in `working`."""
        if self.working is not None and not self.working.done():
            await asyncio.wait([self.working])
        done = self.target.logs.submit(work)
        self.working = done  # type: ignore[assignment]
        return await asyncio.shield(done)

    async def begin(self, place: Place, moves: int) -> None:
        """Raises OSError, LogDamaged."""
        log = self.hosted.log
        start, lineage = log.log_start_offset, log.lineage
        first = log.read(start, 1, log.log_end_offset, at_least_one_batch=True)
        base = start if first is None else min(start, first.first_offset)
        self.must_reopen = False
        self.copy = await self.work(lambda: FutureLog.begin(place, base, start, moves, lineage))

    async def step(self, bytes_max: int = PIECE_BYTES) -> int:
        """Copies a piece, or makes the copy follow what happened to the log; so many bytes. 0: it may be whole by now. Raises
        CopiedInVain, and what `FutureLog` raises."""
        log, copy = self.hosted.log, self.copy
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
                    raise CopiedInVain
                await self.work(lambda: copy.cut_to(lowest_end))
            return 0
        at = copy.end_offset
        if at > log.log_end_offset or not self._goes_on(at):
            raise CopiedInVain
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
                return 0  # it was cut while it was read
            if isinstance(error, StartsBefore):
                raise CopiedInVain from error
            raise
        if not copied and log.lineage is copy.lineage:
            raise LogDamaged(f"{log.directory}: no whole batch could be read at offset {at}")
        return copied

    def _goes_on(self, at: int) -> bool:
        """Whether what follows a copy that ends there is still in the log. A log may start within the batch that begins there."""
        log = self.hosted.log
        start = log.log_start_offset
        if at >= start:
            return True
        first = log.read(start, 1, log.log_end_offset, at_least_one_batch=True)
        return first is not None and first.first_offset == at

    @property
    def is_near(self) -> bool:
        """Whether what is left is not worth another turn: little of the last segment."""
        log, copy = self.hosted.log, self.copy
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
        log, copy = self.hosted.log, self.copy
        return copy is not None and copy.lineage is log.lineage and copy.end_offset == log.log_end_offset
