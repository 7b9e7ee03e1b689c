"""The sync scheduler: one sync round in flight per log directory makes appends survive a power cut, for many waiters at once.

What is owed, and when a round may begin, is decided by `services/storage/core/sync_states.py`. This is the shell around it: it
asks logs what to sync, has a thread do it, arms the timers, and reports.
"""

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from libs.cluster.configs.resolve import TopicConfig
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.open_files import OpenFiles
from libs.commitlog.files.sync import NO_DESCRIPTORS, SyncTargets, sync_then_write
from libs.commitlog.partition_log.log import Log
from libs.telemetry.logs import fields
from services.storage.core import sync_states
from services.storage.core.replication.leader.replica import Replica
from services.storage.core.sync_states import Fact, Round, SyncStates
from services.storage.partition.disk_room import DiskRoom
from services.storage.threads.offload import Offload

log = logging.getLogger("log")

# Each round passes these. A name of the module is found ten times as fast as a member of an enum.
SETTLED = Fact.SETTLED
RUNNING, PAUSED, HANGING = Round.RUNNING, Round.PAUSED, (Round.HANGING, Round.LAST_HANGING)


class SyncedPartition(Protocol):
    """The parts of a partition that a scheduler uses."""

    log: Log
    replica: Replica
    config: TopicConfig
    sync: "SyncScheduler[Any]"
    """The scheduler of the directory that it lies in now."""


P = TypeVar("P", bound=SyncedPartition)
P_contra = TypeVar("P_contra", contravariant=True)


class SyncEvents(Protocol[P_contra]):
    """The events of a scheduler, on the event loop."""

    def round_ended(self, synced: Sequence[P_contra], seconds: float) -> None:
        """The durable offsets of these logs rose."""
        ...

    def sync_stalled(self, scheduler: "SyncScheduler[Any]", *, stalled: bool) -> None: ...

    def room_changed(self, scheduler: "SyncScheduler[Any]") -> None: ...

    def retired(self, scheduler: "SyncScheduler[Any]", error: Exception) -> None:
        """Called once: the directory is of no more use to this process."""
        ...


class Timer(StrEnum):
    HANG = "a round counts as hanging"
    PACE = "the pause before a round is over"
    LEFT_OUT = "logs at fault are tried again"
    ROOM = "small files that found no room are tried again"


HANG = Timer.HANG


class SyncScheduler(Generic[P]):
    """The scheduler of one log directory. After appends, one `start_round` covers all partitions that grew together.

    A round starts at once when somebody waits for it. Otherwise (acks=1, and no reader at the end of the log) rounds keep
    `PACE_S` apart. Back to back they would slow the very appends that they serve, through the file system's journal.
    """

    def __init__(
        self, disk: str, fs: FileSystem, offload: Offload, events: SyncEvents[P], open_files: OpenFiles, *, hang_s: float
    ) -> None:
        """`open_files`: if they are crowded with files that no round has covered, rounds cover more."""
        self.disk = disk
        self.states: SyncStates[P] = SyncStates()
        self.stalled = False
        """Whether a sync hangs. Each append looks at it."""
        self._fs = fs
        self._offload = offload
        self._events = events
        self._open_files = open_files
        self._hang_s = hang_s
        self._loop = asyncio.get_running_loop()
        self.room = DiskRoom(disk, self._loop, self._room_changed)
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._round_targets: list[tuple[P, SyncTargets]] = []
        self._round_waiters: list[asyncio.Future[None]] = []
        self._started_at = 0.0

    @property
    def failed(self) -> bool:
        """Whether the directory is retired."""
        return self.states.retired

    @property
    def suspended(self) -> bool:
        """Whether nothing can be stored here for now: a sync hangs, or the directory is full."""
        return self.stalled or self.room.full

    @property
    def running(self) -> bool:
        """Whether a round of syncs is under way."""
        return self.states.under_way

    def _room_changed(self) -> None:
        self._loop.call_soon(self._events.room_changed, self)  # not amid the append that found no room

    # -- what is owed -------------------------------------------------------------------------------------------------------

    def appended(self, partition: P) -> None:
        """Notes an append. A `replicated` topic gets rounds only as its flush.messages and flush.ms say."""
        states = self.states
        if self._open_files.crowded:
            states.files_became_scarce()
            states.appended(partition)
            states.urgent = True
        elif (
            partition.replica.synced
            or partition.log.log_end_offset - partition.log.durable_offset >= partition.config.flush_messages
        ):
            states.dirty[partition] = None  # as `appended` does: each append passes here, and a call costs as much as the rest
        elif partition not in states.unhurried:
            states.appended_unhurried(partition, self._loop.time())

    def request_round(self, partition: P) -> None:
        """Requests a round soon, whatever the topic says: for a new epoch, or for what a crash left in memory only."""
        self.states.request(partition)

    def mark_urgent(self) -> None:
        """Makes the next round start at once: somebody waits for it."""
        self.states.urgent = True

    def flush_overdue(self, *, age_s_max: float | None = None) -> None:
        """Called at intervals: syncs `replicated` topics after their flush.ms, or all that have waited for `age_s_max`."""
        now = self._loop.time()
        if self._open_files.crowded:
            self.states.files_became_scarce()

        def is_overdue(partition: P, since: float) -> bool:
            limit = partition.config.flush_ms / 1000
            return now - since >= (limit if age_s_max is None else min(limit, age_s_max))

        self.states.flush(is_overdue)
        self.start_round()

    def forget(self, partition: P) -> None:
        """Drops a partition that leaves. A running round may still hold its files, which stay open until it ends."""
        self.states.forget(partition)
        self._round_targets = [entry for entry in self._round_targets if entry[0] is not partition]

    # -- rounds -------------------------------------------------------------------------------------------------------------

    def start_round(self) -> None:
        """Starts a round, unless one runs (its end starts the next), it is too early, or there is nothing to sync."""
        states = self.states
        # The first two only save appends a call.
        if states.round is RUNNING or not (states.dirty or states.requested) or not states.may_begin():
            return
        if not states.urgent and self._loop.time() < states.paced_until:
            self._pause()
            return
        if states.round is PAUSED:
            self._disarm(Timer.PACE)
            states.pause_over()
        while states.may_begin() and not self._start():
            pass  # the first requests may need nothing, but there may be more
        states.urgent = False

    def _start(self) -> bool:
        """Starts one round. False: none of its partitions needs one."""
        states, crowded = self.states, self._open_files.crowded
        in_round: list[tuple[P, SyncTargets]] = []
        for partition in states.to_look_at():
            if partition.sync is not self:  # it was moved to another directory since, and this disk has none of it
                states.forget(partition)
                partition.sync.request_round(partition)
                partition.sync.start_round()
                continue
            try:
                targets = partition.log.sync_targets(indexes=True) if crowded else partition.log.sync_targets()
            except OSError as error:  # no descriptor is left for a directory; the end of this round frees some
                log.warning("partition waits for another sync round", extra=fields(path=self.disk, reason=error))
                states.happened(partition, Fact.POSTPONED)
                continue
            except Exception:  # whatever is wrong with one log, the others of this disk are synced
                self._leave_out(partition)
                continue
            if targets is None:
                states.happened(partition, SETTLED)
            else:
                states.take(partition)
                in_round.append((partition, targets))
        if not in_round and states.dirty:
            states.retry_later(self._loop.time())
            self._pause()
            return True
        if not in_round:
            return False
        states.begin()
        self._round_targets = in_round
        self._started_at = self._loop.time()
        self._arm(HANG, self._started_at + self._hang_s)
        work = partial(sync_then_write, [targets for _, targets in in_round], self._fs, self.disk)
        self._offload.run(work, self._ended)
        return True

    def _leave_out(self, partition: P) -> None:
        """Goes on without a partition whose log is at fault, and tries it again later. The first of its failures is logged."""
        if partition not in self.states.left_out:
            log.exception("partition left out of sync rounds", extra=fields(path=self.disk, partition=partition))
        self.states.happened(partition, Fact.FAULTY)
        self._arm(Timer.LEFT_OUT, self._loop.time() + sync_states.RETRY_S)

    def _ended(self, done: "asyncio.Future[bool]") -> None:
        states = self.states
        self._disarm(HANG)
        if self.stalled:
            self.stalled = False
            self._events.sync_stalled(self, stalled=False)
        counts = states.end()
        round_targets, self._round_targets = self._round_targets, []
        cancelled = done.cancelled()
        error = None if cancelled else done.exception()  # read in any case: else the loop complains
        if cancelled or not counts:
            states.dropped()
        elif error is None:
            self._synced(round_targets, wrote=done.result())
        elif isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
            # No sync failed, and the disk is sound. All of the round is still due.
            log.error("sync round waits for descriptors", extra=fields(path=self.disk, reason=error))
            states.interrupted(self._loop.time())
            self.start_round()
        elif isinstance(error, Exception):
            self.fail(error)
        else:
            states.dropped()
        waiters, self._round_waiters = self._round_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _synced(self, round_targets: list[tuple[P, SyncTargets]], *, wrote: bool) -> None:
        """All of the round is durable. `wrote`: its small files are too."""
        states, indexes_wait = self.states, []
        for partition, targets in round_targets:
            partition.log.mark_synced(targets if wrote else targets.without_writes())
            if partition.log.active.is_unsynced:
                indexes_wait.append(partition)
        states.synced(indexes_wait)
        self._note_room(round_targets, room=wrote)
        now = self._loop.time()
        self._events.round_ended([partition for partition, _ in round_targets], now - self._started_at)
        states.reported(now)
        self.start_round()

    def _note_room(self, round_targets: list[tuple[P, SyncTargets]], *, room: bool) -> None:
        """Retries what was not written, a few at a time, and at once when there is room."""
        states = self.states
        if not room:
            unwritten = [partition for partition, targets in round_targets if targets.writes or targets.removals]
            if states.found_no_room(unwritten):
                log.warning("no room for the files that a sync round writes beside the logs", extra=fields(path=self.disk))
            self._arm(Timer.ROOM, self._loop.time() + sync_states.NO_ROOM_S)
            return
        if not states.has_room and any(targets.writes for _, targets in round_targets):
            log.info("there is room again for the files that sync rounds write beside the logs", extra=fields(path=self.disk))
            states.found_room()
        if states.has_room and states.unwritten:
            states.request_unwritten()

    # -- waiting for rounds, and their end ----------------------------------------------------------------------------------

    async def wait_for_round(self) -> None:
        """Returns when the running round, if any, has ended."""
        if self.running:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._round_waiters.append(waiter)
            await waiter

    async def drain(self) -> None:
        """Returns when everything that was appended is durable, or the directory has failed."""
        states = self.states
        states.flush(lambda partition, since: True)
        while (states.under_way or states.dirty or states.requested) and not states.retired:
            states.urgent = True
            self.start_round()
            if states.under_way:
                await self.wait_for_round()
            elif states.dirty:
                await asyncio.sleep(sync_states.PACE_S)  # until descriptors are free

    def fail(self, error: Exception) -> None:
        """Retires the directory, once and for all."""
        if self.states.retire():
            self._events.retired(self, error)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._offload.close()

    def broken_invariant(self) -> str:
        """The first invariant of the states and their timers that does not hold. Empty: all hold."""
        states = self.states
        hanging = states.round in HANGING
        if self.stalled != hanging:
            return f"the rounds are {states.round}, and the directory is{'' if self.stalled else ' not'} stalled"
        if states.under_way and not hanging and Timer.HANG not in self._timers:
            return "nobody will notice that a round hangs"
        if states.round is PAUSED and Timer.PACE not in self._timers:
            return "a pause has no end"
        if (
            states.left_out
            and Timer.LEFT_OUT not in self._timers
            and (states.left_out.keys() - states.requested.keys() - states.dirty.keys())
        ):
            return "a log that was left out is not tried again"
        return states.broken_invariant()

    # -- timers -------------------------------------------------------------------------------------------------------------

    def _arm(self, timer: Timer, when: float) -> None:
        if timer not in self._timers:
            self._timers[timer] = self._loop.call_at(when, self._fired, timer)

    def _disarm(self, timer: Timer) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _pause(self) -> None:
        if self.states.pause():
            self._arm(Timer.PACE, self.states.paced_until)

    def _fired(self, timer: Timer) -> None:
        states = self.states
        del self._timers[timer]
        match timer:
            case Timer.HANG:
                states.hang()
                self.stalled = True
                self._events.sync_stalled(self, stalled=True)
            case Timer.PACE:
                states.pause_over()
                states.urgent = True
                self.start_round()
            case Timer.LEFT_OUT:
                states.request_left_out()
                self.start_round()
            case Timer.ROOM:
                if states.unwritten:
                    states.request_unwritten()
                    self.start_round()
