"""Makes what was appended survive a power cut: one sync round in flight per log directory, many waiters.

A round takes every partition that is dirty when it starts, whoever waits for it: an acks=1 write must become visible too. What is
appended during a round goes into the next one.

Rule: a failed fsync retires the directory and is never retried. The kernel may have dropped the pages and marked them clean: a
second fsync would succeed and lie. A sync that hangs is noticed after `hang_s`: until it returns, the directory counts as stalled
and takes no more appends.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from libs.commitlog.filesystem import FileSystem
from libs.commitlog.sync import NO_DESCRIPTORS, SyncTargets, sync_then_write
from libs.telemetry.logs import fields
from services.storage.offload import Offload

if TYPE_CHECKING:
    from services.storage.hosted import Hosted

log = logging.getLogger(__name__)


PACE_S = 0.01
AGAIN_S = 0.5
"""After a round that had too few descriptors."""
NO_ROOM_S = 2.0
"""After a round that found no room for what it leaves beside the logs."""
OWED_PER_ROUND = 256
"""Small files take a tenth of a millisecond each: thousands of new epochs must not hold up the appends that share the round."""


class SyncEvents(Protocol):
    """What a scheduler tells, on the event loop."""

    def synced(self, hosted: "Hosted") -> None:
        """The log's durable offset rose."""
        ...

    def round_ended(self, seconds: float) -> None: ...

    def sync_stalled(self, scheduler: "SyncScheduler", *, stalled: bool) -> None: ...

    def retired(self, scheduler: "SyncScheduler", error: Exception) -> None:
        """Once: the directory is of no more use to this process."""
        ...


class SyncScheduler:
    """One per log directory. Tell it of appends, then `kick` once: partitions that moved together share a round.

    A round starts at once when somebody waits for it. When nobody does (acks=1, and no reader at the end of the log), rounds
    keep `PACE_S` apart: back to back they would slow the very appends that they serve, by the file system's journal.
    """

    def __init__(
        self,
        disk: str,
        fs: FileSystem,
        offload: Offload,
        events: SyncEvents,
        *,
        hang_s: float,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`crowded`: too many files are open because no round has covered what was written to them; then rounds cover more."""
        self.disk = disk
        self.stalled = False
        self.failed = False
        self._fs = fs
        self._offload = offload
        self._events = events
        self._hang_s = hang_s
        self._crowded = crowded
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[Hosted, None] = {}
        self._owed: dict[Hosted, None] = {}
        self._lazy: dict[Hosted, float] = {}  # appended to, not owed a round yet; since when
        self._holding: dict[Hosted, None] = {}  # their appends are durable, their indexes wait for a resume point
        self._unwritten: dict[Hosted, None] = {}  # all is durable, but there was no room for what goes beside the log
        self._has_room = True
        self._room_timer: asyncio.TimerHandle | None = None
        self._in_flight: list[tuple[Hosted, SyncTargets]] = []
        self._running = False
        self._quiet: list[asyncio.Future[None]] = []
        self._started_at = 0.0
        self._hang_timer: asyncio.TimerHandle | None = None
        self._urgent = False
        self._paced_until = 0.0
        self._pace_timer: asyncio.TimerHandle | None = None

    def appended(self, hosted: "Hosted") -> None:
        """A `replicated` topic is owed a round only as its flush.messages and flush.ms say."""
        if self._crowded():
            self._dirty.update(self._holding)
            self._dirty.update(dict.fromkeys([*self._lazy, hosted]))
            self._urgent = True
            return
        unsynced = hosted.log.log_end_offset - hosted.log.durable_offset
        if hosted.replica.synced or unsynced >= hosted.config.flush_messages:
            self._dirty[hosted] = None
        elif hosted not in self._lazy:
            self._lazy[hosted] = self._loop.time()

    def owe(self, hosted: "Hosted") -> None:
        """It needs a round soon, whatever its topic says: a new epoch, or what a crash left in memory only."""
        self._owed[hosted] = None
        self._urgent = True

    def hurry(self) -> None:
        """Somebody waits for what was appended: `kick` will not pace the next round."""
        self._urgent = True

    def kick(self) -> None:
        """Starts a round, unless one runs already (its end starts the next), it is too early or there is nothing to do."""
        if self._running or self.failed or not (self._dirty or self._owed):
            return
        if not self._urgent and self._loop.time() < self._paced_until:
            if self._pace_timer is None:
                self._pace_timer = self._loop.call_at(self._paced_until, self._paced)
            return
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None
        while (self._dirty or self._owed) and not self._start():
            pass  # what is owed may need nothing, but there may be more
        self._urgent = False

    def _paced(self) -> None:
        self._pace_timer = None
        self.hurry()
        self.kick()

    def _start(self) -> bool:
        """False: none of those that it took needs a round."""
        for hosted in list(islice(self._owed, OWED_PER_ROUND)):
            self._dirty[hosted] = None
        in_flight, waiting, crowded = [], [], self._crowded()
        for hosted in self._dirty:
            self._owed.pop(hosted, None)
            self._lazy.pop(hosted, None)
            self._holding.pop(hosted, None)
            self._unwritten.pop(hosted, None)
            if hosted.sync is not self:  # it was moved to another directory since: this disk says nothing of it
                hosted.sync.owe(hosted)
                hosted.sync.kick()
                continue
            try:
                targets = hosted.log.sync_targets(indexes=True) if crowded else hosted.log.sync_targets()
            except OSError as error:  # no descriptor is left for what must be opened: those of this round will be
                log.warning("partition waits for another sync round", extra=fields(path=self.disk, reason=error))
                waiting.append(hosted)
                continue
            if targets is not None:
                in_flight.append((hosted, targets))
        self._dirty = dict.fromkeys(waiting)
        if waiting and not in_flight:
            self._paced_until, self._urgent = self._loop.time() + AGAIN_S, False
            self._pace_timer = self._pace_timer or self._loop.call_at(self._paced_until, self._paced)
            return True
        if not in_flight:
            return False
        self._running = True
        self._in_flight = in_flight
        self._started_at = self._loop.time()
        self._hang_timer = self._loop.call_at(self._started_at + self._hang_s, self._hangs)
        work = partial(sync_then_write, [targets for _, targets in in_flight], self._fs, self.disk)
        self._offload.run(work, self._ended)
        return True

    def flush_overdue(self, *, age_s_max: float | None = None) -> None:
        """Every so often: `replicated` topics that have waited for their flush.ms, or all that have waited for `age_s_max`."""
        now = self._loop.time()
        if self._crowded():
            self._dirty.update(self._holding)
            age_s_max = 0.0
        for hosted, since in list(self._lazy.items()):
            limit = hosted.config.flush_ms / 1000
            if now - since >= (limit if age_s_max is None else min(limit, age_s_max)):
                self._dirty[hosted] = None
        self.kick()

    def forget(self, hosted: "Hosted") -> None:
        """It leaves. A round that runs may still hold its files, which therefore stay open until it ends."""
        for waiting in (self._dirty, self._owed, self._lazy, self._holding, self._unwritten):
            waiting.pop(hosted, None)
        self._in_flight = [entry for entry in self._in_flight if entry[0] is not hosted]

    async def quiet(self) -> None:
        """Returns when the round that runs now, if any, has ended."""
        if self._running:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._quiet.append(waiter)
            await waiter

    async def drain(self) -> None:
        """Returns when everything that was appended is durable, or the directory has failed."""
        self._dirty.update(dict.fromkeys(self._lazy))
        while (self._running or self._dirty or self._owed) and not self.failed:
            self.hurry()
            self.kick()
            if self._running:
                await self.quiet()
            elif self._dirty:
                await asyncio.sleep(PACE_S)  # for descriptors

    def fail(self, error: Exception) -> None:
        """Retires the directory, once and for all."""
        if self.failed:
            return
        self.failed = True
        for waiting in (self._dirty, self._owed, self._lazy, self._holding, self._unwritten):
            waiting.clear()
        self._events.retired(self, error)

    def close(self) -> None:
        for timer in (self._hang_timer, self._pace_timer, self._room_timer):
            if timer is not None:
                timer.cancel()
        self._offload.close()

    def _ended(self, done: "asyncio.Future[bool]") -> None:
        if self._hang_timer is not None:
            self._hang_timer.cancel()
        if self.stalled:
            self.stalled = False
            self._events.sync_stalled(self, stalled=False)
        self._running = False
        finished, self._in_flight = self._in_flight, []
        error = None if done.cancelled() else done.exception()  # asked for in any case: else the loop complains
        if not done.cancelled() and not self.failed:
            if error is None:
                wrote = done.result()
                for hosted, targets in finished:
                    hosted.log.mark_synced(targets if wrote else targets.without_writes())
                    if hosted.log.active.is_unsynced:
                        self._holding[hosted] = None
                    self._events.synced(hosted)
                self._found_room(finished, room=wrote)
                now = self._loop.time()
                self._events.round_ended(now - self._started_at)
                self._paced_until = now + PACE_S
                if self._owed:
                    self.hurry()
                self.kick()
            elif isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
                self._begin_again(finished, error)
            elif isinstance(error, Exception):
                self.fail(error)
        waiters, self._quiet = self._quiet, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _begin_again(self, unfinished: "list[tuple[Hosted, SyncTargets]]", error: OSError) -> None:
        """No sync failed: a directory could not be opened for one. The disk is as good as before, so all of it is still owed."""
        log.error("sync round waits for descriptors", extra=fields(path=self.disk, reason=error))
        self._dirty.update((hosted, None) for hosted, _ in unfinished)
        self._paced_until = self._loop.time() + AGAIN_S
        self._urgent = False
        self.kick()

    def _found_room(self, finished: "list[tuple[Hosted, SyncTargets]]", *, room: bool) -> None:
        """What was not written is tried again by and by, a few at a time; at once when there is room."""
        if not room:
            if self._has_room:
                log.warning("no room for what a sync round leaves beside the logs", extra=fields(path=self.disk))
            self._has_room = False
            self._unwritten.update((hosted, None) for hosted, targets in finished if targets.writes or targets.removals)
            if self._room_timer is None:
                self._room_timer = self._loop.call_later(NO_ROOM_S, self._look_for_room)
        elif not self._has_room and any(targets.writes for _, targets in finished):
            log.info("there is room again for what sync rounds leave beside the logs", extra=fields(path=self.disk))
            self._has_room = True
            self._owe_unwritten()
        elif self._has_room and self._unwritten:
            self._owe_unwritten()

    def _look_for_room(self) -> None:
        self._room_timer = None
        if self._unwritten:
            self._owe_unwritten()
            self.kick()

    def _owe_unwritten(self) -> None:
        for hosted in list(islice(self._unwritten, OWED_PER_ROUND)):
            self.owe(hosted)

    def _hangs(self) -> None:
        self.stalled = True
        self._events.sync_stalled(self, stalled=True)
