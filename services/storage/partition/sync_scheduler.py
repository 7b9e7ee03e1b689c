"""The sync scheduler: one sync round in flight per log directory makes appends survive a power cut, for many waiters at once.

A round takes every partition that is dirty when it starts, whether somebody waits or not: an acks=1 write must become visible
too. Appends during a round go into the next one.

Rule: a failed fsync retires the directory and is never retried. The kernel may have dropped the pages and marked them clean: a
second fsync would succeed and lie. A sync that hangs is noticed after `hang_s`. Until it returns, the directory counts as stalled
and takes no more appends.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import NO_DESCRIPTORS, SyncTargets, sync_then_write
from libs.telemetry.logs import fields
from services.storage.partition.disk_room import DiskRoom
from services.storage.threads.offload import Offload

if TYPE_CHECKING:
    from services.storage.partition.partition import Partition

log = logging.getLogger(__name__)


PACE_S = 0.01
RETRY_S = 0.5
"""The wait after a round that had too few descriptors."""
NO_ROOM_S = 2.0
"""The wait after a round that found no room for what it leaves beside the logs."""
REQUESTED_PER_ROUND = 256
"""Small files take a tenth of a millisecond each. Thousands of new epochs must not hold up the appends that share their round."""


class SyncEvents(Protocol):
    """The events of a scheduler, on the event loop."""

    def round_ended(self, synced: "Sequence[Partition]", seconds: float) -> None:
        """The durable offsets of these logs rose."""
        ...

    def sync_stalled(self, scheduler: "SyncScheduler", *, stalled: bool) -> None: ...

    def room_changed(self, scheduler: "SyncScheduler") -> None: ...

    def retired(self, scheduler: "SyncScheduler", error: Exception) -> None:
        """Called once: the directory is of no more use to this process."""
        ...


class SyncScheduler:
    """The scheduler of one log directory. After appends, one `start_round` covers all partitions that grew together.

    A round starts at once when somebody waits for it. Otherwise (acks=1, and no reader at the end of the log) rounds keep
    `PACE_S` apart. Back to back they would slow the very appends that they serve, through the file system's journal.
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
        """`crowded`: too many files are open, since no round has covered what was written to them. Then rounds cover more."""
        self.disk = disk
        self.stalled = False
        self.failed = False
        self._fs = fs
        self._offload = offload
        self._events = events
        self._hang_s = hang_s
        self._crowded = crowded
        self._loop = asyncio.get_running_loop()
        self.room = DiskRoom(disk, self._loop, self._room_changed)
        self._dirty: dict[Partition, None] = {}
        self._requested: dict[Partition, None] = {}
        self._unhurried: dict[Partition, float] = {}  # appended to, without a requested round; since when
        self._awaiting_resume_point: dict[
            Partition, None
        ] = {}  # their appends are durable, their indexes wait for a resume point
        self._unwritten: dict[Partition, None] = {}  # all is durable, but there was no room for the files beside the log
        self._has_room = True
        self._room_timer: asyncio.TimerHandle | None = None
        self._left_out: dict[Partition, None] = {}  # their logs could not tell what they owe
        self._left_out_timer: asyncio.TimerHandle | None = None
        self._in_flight: list[tuple[Partition, SyncTargets]] = []
        self._running = False
        self._round_waiters: list[asyncio.Future[None]] = []
        self._started_at = 0.0
        self._hang_timer: asyncio.TimerHandle | None = None
        self._urgent = False
        self._paced_until = 0.0
        self._pace_timer: asyncio.TimerHandle | None = None

    @property
    def suspended(self) -> bool:
        """Whether nothing can be stored here for now: a sync hangs, or the directory is full."""
        return self.stalled or self.room.full

    @property
    def running(self) -> bool:
        """Whether a round of syncs is under way."""
        return self._running

    def _room_changed(self) -> None:
        self._loop.call_soon(self._events.room_changed, self)  # not amid the append that found no room

    def appended(self, partition: "Partition") -> None:
        """Notes an append. A `replicated` topic gets rounds only as its flush.messages and flush.ms say."""
        if self._crowded():
            self._dirty.update(self._awaiting_resume_point)
            self._dirty.update(dict.fromkeys([*self._unhurried, partition]))
            self._urgent = True
            return
        unsynced = partition.log.log_end_offset - partition.log.durable_offset
        if partition.replica.synced or unsynced >= partition.config.flush_messages:
            self._dirty[partition] = None
        elif partition not in self._unhurried:
            self._unhurried[partition] = self._loop.time()

    def request_round(self, partition: "Partition") -> None:
        """Requests a round soon, whatever the topic says: for a new epoch, or for what a crash left in memory only."""
        self._requested[partition] = None
        self._urgent = True

    def mark_urgent(self) -> None:
        """Makes the next round start at once: somebody waits for it."""
        self._urgent = True

    def start_round(self) -> None:
        """Starts a round, unless one runs (its end starts the next), it is too early, or there is nothing to sync."""
        if self._running or self.failed or not (self._dirty or self._requested):
            return
        if not self._urgent and self._loop.time() < self._paced_until:
            if self._pace_timer is None:
                self._pace_timer = self._loop.call_at(self._paced_until, self._paced)
            return
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None
        while (self._dirty or self._requested) and not self._start():
            pass  # the first requests may need nothing, but there may be more
        self._urgent = False

    def _paced(self) -> None:
        self._pace_timer = None
        self.mark_urgent()
        self.start_round()

    def _start(self) -> bool:
        """Starts one round. False: none of its partitions needs one."""
        for partition in list(islice(self._requested, REQUESTED_PER_ROUND)):
            self._dirty[partition] = None
        in_flight, waiting, crowded = [], [], self._crowded()
        for partition in self._dirty:
            self._requested.pop(partition, None)
            self._unhurried.pop(partition, None)
            self._awaiting_resume_point.pop(partition, None)
            self._unwritten.pop(partition, None)
            if partition.sync is not self:  # it was moved to another directory since, and this disk has none of it
                self._left_out.pop(partition, None)
                partition.sync.request_round(partition)
                partition.sync.start_round()
                continue
            try:
                targets = partition.log.sync_targets(indexes=True) if crowded else partition.log.sync_targets()
            except OSError as error:  # no descriptor is left for a directory; the end of this round frees some
                log.warning("partition waits for another sync round", extra=fields(path=self.disk, reason=error))
                waiting.append(partition)
                continue
            except Exception:  # whatever is wrong with one log, the others of this disk are synced
                self._leave_out(partition)
                continue
            self._left_out.pop(partition, None)
            if targets is not None:
                in_flight.append((partition, targets))
        self._dirty = dict.fromkeys(waiting)
        if waiting and not in_flight:
            self._paced_until, self._urgent = self._loop.time() + RETRY_S, False
            self._pace_timer = self._pace_timer or self._loop.call_at(self._paced_until, self._paced)
            return True
        if not in_flight:
            return False
        self._running = True
        self._in_flight = in_flight
        self._started_at = self._loop.time()
        self._hang_timer = self._loop.call_at(self._started_at + self._hang_s, self._hung)
        work = partial(sync_then_write, [targets for _, targets in in_flight], self._fs, self.disk)
        self._offload.run(work, self._ended)
        return True

    def _leave_out(self, partition: "Partition") -> None:
        """Goes on without a partition whose log is at fault, and tries it again later. The first of its failures is logged."""
        if partition not in self._left_out:
            log.exception("partition left out of sync rounds", extra=fields(path=self.disk, partition=partition))
            self._left_out[partition] = None
        if self._left_out_timer is None:
            self._left_out_timer = self._loop.call_later(RETRY_S, self._retry_left_out)

    def _retry_left_out(self) -> None:
        self._left_out_timer = None
        for partition in self._left_out:
            self.request_round(partition)
        self.start_round()

    def flush_overdue(self, *, age_s_max: float | None = None) -> None:
        """Called at intervals: syncs `replicated` topics after their flush.ms, or all that have waited for `age_s_max`."""
        now = self._loop.time()
        if self._crowded():
            self._dirty.update(self._awaiting_resume_point)
            age_s_max = 0.0
        for partition, since in list(self._unhurried.items()):
            limit = partition.config.flush_ms / 1000
            if now - since >= (limit if age_s_max is None else min(limit, age_s_max)):
                self._dirty[partition] = None
        self.start_round()

    def forget(self, partition: "Partition") -> None:
        """Drops a partition that leaves. A running round may still hold its files, which stay open until it ends."""
        for waiting in self._all_waiting():
            waiting.pop(partition, None)
        self._in_flight = [entry for entry in self._in_flight if entry[0] is not partition]

    def _all_waiting(self) -> "Iterator[dict[Partition, None] | dict[Partition, float]]":
        yield from (self._dirty, self._requested, self._unhurried)
        yield from (self._awaiting_resume_point, self._unwritten, self._left_out)

    async def wait_for_round(self) -> None:
        """Returns when the running round, if any, has ended."""
        if self._running:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._round_waiters.append(waiter)
            await waiter

    async def drain(self) -> None:
        """Returns when everything that was appended is durable, or the directory has failed."""
        self._dirty.update(dict.fromkeys(self._unhurried))
        while (self._running or self._dirty or self._requested) and not self.failed:
            self.mark_urgent()
            self.start_round()
            if self._running:
                await self.wait_for_round()
            elif self._dirty:
                await asyncio.sleep(PACE_S)  # until descriptors are free

    def fail(self, error: Exception) -> None:
        """Retires the directory, once and for all."""
        if self.failed:
            return
        self.failed = True
        for waiting in self._all_waiting():
            waiting.clear()
        self._events.retired(self, error)

    def close(self) -> None:
        for timer in (self._hang_timer, self._pace_timer, self._room_timer, self._left_out_timer):
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
        round_targets, self._in_flight = self._in_flight, []
        error = None if done.cancelled() else done.exception()  # read in any case: else the loop complains
        if not done.cancelled() and not self.failed:
            if error is None:
                wrote = done.result()
                for partition, targets in round_targets:
                    partition.log.mark_synced(targets if wrote else targets.without_writes())
                    if partition.log.active.is_unsynced:
                        self._awaiting_resume_point[partition] = None
                self._note_room(round_targets, room=wrote)
                now = self._loop.time()
                self._events.round_ended([partition for partition, _ in round_targets], now - self._started_at)
                self._paced_until = now + PACE_S
                if self._requested:
                    self.mark_urgent()
                self.start_round()
            elif isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
                self._retry(round_targets, error)
            elif isinstance(error, Exception):
                self.fail(error)
        waiters, self._round_waiters = self._round_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _retry(self, unfinished: "list[tuple[Partition, SyncTargets]]", error: OSError) -> None:
        """Repeats a round. No sync failed: a directory could not be opened. The disk is sound, so all of the round is still
        due."""
        log.error("sync round waits for descriptors", extra=fields(path=self.disk, reason=error))
        self._dirty.update((partition, None) for partition, _ in unfinished)
        self._paced_until = self._loop.time() + RETRY_S
        self._urgent = False
        self.start_round()

    def _note_room(self, round_targets: "list[tuple[Partition, SyncTargets]]", *, room: bool) -> None:
        """Retries what was not written, a few at a time, and at once when there is room."""
        if not room:
            if self._has_room:
                log.warning("no room for the files that a sync round writes beside the logs", extra=fields(path=self.disk))
            self._has_room = False
            self._unwritten.update(
                (partition, None) for partition, targets in round_targets if targets.writes or targets.removals
            )
            if self._room_timer is None:
                self._room_timer = self._loop.call_later(NO_ROOM_S, self._look_for_room)
        elif not self._has_room and any(targets.writes for _, targets in round_targets):
            log.info("there is room again for the files that sync rounds write beside the logs", extra=fields(path=self.disk))
            self._has_room = True
            self._request_unwritten()
        elif self._has_room and self._unwritten:
            self._request_unwritten()

    def _look_for_room(self) -> None:
        self._room_timer = None
        if self._unwritten:
            self._request_unwritten()
            self.start_round()

    def _request_unwritten(self) -> None:
        for partition in list(islice(self._unwritten, REQUESTED_PER_ROUND)):
            self.request_round(partition)

    def _hung(self) -> None:
        self.stalled = True
        self._events.sync_stalled(self, stalled=True)
