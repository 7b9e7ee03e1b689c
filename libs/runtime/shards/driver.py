"""Runs one shard: asks its log, feeds the core, answers who waits, keeps its timers. One task; no decision is made here.

Order of a round: what the log said → answers → timers that are due → the next append. Whoever submits is decided at once, in the
order of calls; what comes while an append is under way shares the next one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any, Generic, TypeVar

from libs.clock import Clock
from libs.cluster.backoff import Backoff
from libs.runtime.shards.decisions import Machine
from libs.runtime.shards.log_port import Claimed, InternalLog, Read, Refused, Stored, Unknown
from libs.runtime.shards.pending import Answer
from libs.runtime.shards.shard import Progress, Shard
from libs.runtime.shards.states import State
from libs.runtime.shards.steady_time import SteadyTime
from libs.runtime.shards.tables import Journal
from libs.runtime.shards.write_errors import NOT_COORDINATOR
from libs.telemetry.logs import fields
from libs.wire.batches import BatchError
from libs.wire.errors import ErrorCode
from libs.wire.key_values import latest_values

log = logging.getLogger(__name__)

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")

NOT_YET = Refused(ErrorCode.OFFSET_NOT_AVAILABLE)
"""A new leader does not know yet what is committed: it learns."""
REPLAYED_PER_TURN = 200
"""About two milliseconds: then others on the event loop get theirs."""
LOOK_S_MAX = 5.0
"""Wall time may be set; timers are looked at so often whatever it was."""

Ticket = asyncio.Future["Answer[Any, Any]"]


class ShardDriver(Generic[E, R, S]):
    """Runs from its making until `closed`. `submit` answers also when the shard is not served (any more)."""

    def __init__(
        self,
        name: str,
        internal_log: InternalLog,
        make: Callable[[Journal], Machine[E, R, S]],
        owner_epoch: int,
        clock: Clock,
        *,
        batch_bytes_max: int,
        on_state: Callable[[State], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.owner_epoch = owner_epoch
        self._log = internal_log
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._time = SteadyTime(clock, self._loop.time)
        self._shard: Shard[E, R, S, Ticket] = Shard(make, owner_epoch, batch_bytes_max=batch_bytes_max)
        self._on_state = on_state
        self._told = self._shard.state
        self._wake = asyncio.Event()
        self._under_way: asyncio.Task[Any] | None = None
        self._backoff = Backoff(0.02, 1.0)
        self._task = self._loop.create_task(self._run(), name=f"shard {name}")

    @property
    def state(self) -> State:
        return self._shard.state

    @property
    def machine(self) -> Machine[E, R, S]:
        """For looking at: its tables hold also what is replayed and not committed yet."""
        return self._shard.machine

    @property
    def progress(self) -> Progress:
        """Of its last loading."""
        return self._shard.progress

    def debug(self) -> object:
        progress = self._shard.progress
        return {
            "state": self.state.value,
            "owner_epoch": self.owner_epoch,
            "position": self._shard.position,
            "loading_to": progress.end,
            "records_replayed": progress.records,
            "waiting": self._shard.waiting,
        }

    def submit(self, event: E) -> "asyncio.Future[Answer[R, Any]]":
        """Cancelling it takes nothing back."""
        ticket: Ticket = self._loop.create_future()
        try:
            self._shard.submit(event, self._time.now_ms(), ticket)
        except Exception:
            log.exception("not decided", extra=fields(shard=self.name, event_type=type(event).__name__))
        self._answer()
        self._wake.set()
        return ticket

    def leader_moved(self) -> None:
        """Whatever is under way is not waited for: the former leader may be stopped, or cut off, and never answer."""
        if self._under_way is not None:
            self._under_way.cancel()
        elif self._shard.state is State.SERVING:
            self._shard.unsure(NOT_COORDINATOR)
            self._answer()
        self._wake.set()

    def dismiss(self) -> None:
        """It belongs to another owner now. What is under way may still be answered, everything else is refused."""
        self._shard.dismiss()
        if self._shard.state is State.CLOSED and self._under_way is not None:
            self._under_way.cancel()
        self._answer()
        self._wake.set()

    async def closed(self) -> None:
        """After `dismiss`."""
        await asyncio.wait([self._task])

    async def abandon(self) -> None:
        """Ends at once: nobody waits any longer."""
        self.dismiss()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._under_way is not None:
            self._under_way.cancel()
        self._shard.unsure()
        self._answer()

    # -- the task -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._shard.state is not State.CLOSED:
            try:
                await self._step()
            except Exception:
                log.exception("shard failed", extra=fields(shard=self.name, state=self._shard.state.value))
                self._shard.start_again_unless_closed()
                self._answer()
                await self._pause()
            self._tell()
        self._answer()

    async def _step(self) -> None:
        match self._shard.state:
            case State.CLAIMING:
                await self._claim()
            case State.LOADING:
                await self._load()
            case State.SERVING:
                await self._serve()
            case State.UNLOADING:  # its append is under way in `_append`, or was just answered
                raise AssertionError("nothing is under way")
        self._answer()

    async def _claim(self) -> None:
        leader_epoch = self._log.leader_epoch()
        if leader_epoch is None:
            await self._pause()
            return
        shard = self._shard
        fence = shard.next_claim(leader_epoch)
        outcome = await self._ask(self._log.claim(fence))
        if shard.state is not State.CLAIMING:
            return
        match outcome:
            case Claimed(log_start, log_end):
                shard.claimed(log_start, log_end)
            case Refused(error) if error == NOT_COORDINATOR:
                shard.fenced()
            case _:
                shard.unsure()
                await self._pause()

    async def _load(self) -> None:
        shard = self._shard
        end = shard.progress.end
        if shard.position >= end:
            self._loaded(end)
            return
        outcome = await self._ask(self._log.read(shard.fence, shard.position))
        if shard.state is not State.LOADING:
            return
        if not isinstance(outcome, Read):
            if outcome != NOT_YET:
                shard.unsure()
            await self._pause()
            return
        try:
            found, position = latest_values(outcome.batches, shard.position, end)
        except BatchError as error:
            log.error("shard cannot be read", extra=fields(shard=self.name, offset=shard.position, reason=error))
            shard.unsure()
            await self._pause()
            return
        if position == shard.position and outcome.high_watermark >= end:
            position = end  # a compaction left nothing there
        records = iter(found.items())
        while piece := list(islice(records, REPLAYED_PER_TURN)):
            shard.replay_committed(piece)
            await asyncio.sleep(0)
            if shard.state is not State.LOADING:
                return
        self._loaded(position)

    def _loaded(self, position: int) -> None:
        shard = self._shard
        shard.loaded(position, self._time.now_ms())
        if shard.state is State.SERVING:
            self._backoff.reset()
            progress = shard.progress
            details = fields(shard=self.name, owner_epoch=self.owner_epoch, records=progress.records, end=progress.end)
            log.info("shard loaded", extra=details)

    async def _serve(self) -> None:
        shard = self._shard
        self._wake.clear()
        self._expire()
        self._answer()
        planned = shard.next_append()
        if planned is None:
            await self._until_woken()
            return
        outcome = await self._ask(self._log.append(planned, self._clock.wall_ms()))  # a leader compares it with its own
        match outcome:
            case Stored(base_offset) if base_offset == planned.offset:
                shard.appended()
            case Refused(error):
                shard.refused(error)
            case _:
                shard.unsure()

    def _expire(self) -> None:
        now_ms, due = self._time.now_ms(), True
        while due:
            try:
                due = self._shard.expire(now_ms)
            except Exception:
                log.exception("not decided", extra=fields(shard=self.name, event_type="Expired"))

    async def _until_woken(self) -> None:
        deadline = self._shard.next_deadline()
        if deadline is None:
            await self._wake.wait()
            return
        wait_s = min(max((deadline - self._time.now_ms()) / 1000, 0.001), LOOK_S_MAX)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _ask(self, asking: "Coroutine[Any, Any, A]") -> "A | Unknown":
        """`leader_moved` ends it early."""
        self._under_way = task = self._loop.create_task(asking)
        try:
            await asyncio.wait([task])
        finally:
            self._under_way = None
            if not task.done():
                task.cancel()
        return Unknown("the leader moved") if task.cancelled() else task.result()

    async def _pause(self) -> None:
        """Until the image moves, or for a while."""
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next_s()):
                await self._wake.wait()

    def _answer(self) -> None:
        for answer in self._shard.take_answers():
            if not answer.ticket.done():
                answer.ticket.set_result(answer)

    def _tell(self) -> None:
        state = self._shard.state
        if state is not self._told:
            self._told = state
            self._on_state(state)
