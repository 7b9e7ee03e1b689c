"""Runs one shard: asks its log, feeds the core, answers who waits, keeps its timers. No decision is made here.

A task claims and loads. A shard that serves is run by what happens to it, without a task: whoever asks is decided at once, in the
order of calls, and what was decided in one turn, or while an append was under way, shares the next one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from libs.clock import Clock
from libs.cluster.backoff import Backoff
from libs.runtime.shards.decisions import Machine
from libs.runtime.shards.log_port import Cancel, Claimed, InternalLog, Read, Refused, Stored, Unknown
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

Told = Callable[["Answer[Any, Any]"], None]
"""Whom an answer is for: called once."""

_RUNS = (State.SERVING, State.UNLOADING)


class ShardDriver(Generic[E, R, S]):
    """Runs from its making until `closed`. Who asks is answered also when the shard is not served (any more)."""

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
        self._shard: Shard[E, R, S, Told] = Shard(make, owner_epoch, batch_bytes_max=batch_bytes_max)
        self._on_state = on_state
        self._told = self._shard.state
        self._wake = asyncio.Event()
        self._under_way: asyncio.Task[Any] | None = None
        """A claim, or a read."""
        self._appending: Cancel | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._failed = False
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

    def ask(self, event: E, told: "Callable[[Answer[R, Any]], None]") -> bool:
        """`told` is called once, perhaps before this returns. True: `append` is to be called, when nobody else asks at once."""
        try:
            self._shard.submit(event, self._time.now_ms(), told)
        except Exception:
            log.exception("not decided", extra=fields(shard=self.name, event_type=type(event).__name__))
        self._go_on()
        return self._shard.wants_append

    def append(self) -> None:
        """What was decided, unless an append is under way: then it goes with the next one."""
        try:
            planned = self._shard.next_append()
            if planned is not None:
                now_ms = self._clock.wall_ms()  # a leader compares it with its own
                self._appending = self._log.append(planned, now_ms, partial(self._appended, planned.offset))
        except Exception:
            self._fail()

    def leader_moved(self) -> None:
        """Whatever is under way is not waited for: the former leader may be stopped, or cut off, and never answer."""
        if self._under_way is not None:
            self._under_way.cancel()
        elif self._appending is not None:
            self._take_back()
            self._shard.unsure()
        elif self._shard.state is State.SERVING:
            self._shard.unsure(NOT_COORDINATOR)
        self._answer()
        self._wake.set()

    def dismiss(self) -> None:
        """It belongs to another owner now. What is under way may still be answered, everything else is refused."""
        self._shard.dismiss()
        if self._shard.state is State.CLOSED:
            if self._under_way is not None:
                self._under_way.cancel()
            self._take_back()
        self._answer()
        self._wake.set()

    async def closed(self) -> None:
        """After `dismiss`."""
        await asyncio.wait([self._task])

    # -- the task -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._shard.state is not State.CLOSED:
            try:
                await self._step()
            except Exception:
                self._start_again()
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
            case State.UNLOADING:
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
        self._go_on()
        while self._shard.state in _RUNS:
            self._wake.clear()
            await self._wake.wait()
        self._set_timer(None)
        if self._failed:
            self._failed = False
            await self._pause()

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

    # -- serving --------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Something was decided, or committed: answers, then the next timer."""
        self._answer()
        deadline = self._shard.next_deadline()  # None unless it serves
        if deadline is not None and (self._timer is None or deadline < self._timer_ms):
            self._set_timer(deadline)

    def _appended(self, offset: int, outcome: Stored | Refused | Unknown) -> None:
        self._appending = None
        shard = self._shard
        try:
            if type(outcome) is Stored and outcome.base_offset == offset:
                shard.appended()
            elif type(outcome) is Refused:
                shard.refused(outcome.error)
            else:
                shard.unsure()
        except Exception:
            self._fail()
        self._go_on()
        self.append()
        if shard.state is not State.SERVING:
            self._wake.set()

    def _take_back(self) -> None:
        """Nobody waits for the append any more."""
        if self._appending is not None:
            self._appending()
            self._appending = None

    def _fail(self) -> None:
        self._failed = True
        self._take_back()
        self._start_again()
        self._wake.set()

    def _start_again(self) -> None:
        log.exception("shard failed", extra=fields(shard=self.name, state=self._shard.state.value))
        self._shard.start_again_unless_closed()
        self._answer()

    def _set_timer(self, deadline_ms: int | None) -> None:
        """A deadline that moves away is found out when it comes: heartbeats move them all the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            wait_s = min(max((deadline_ms - self._time.now_ms()) / 1000, 0.001), LOOK_S_MAX)
            self._timer, self._timer_ms = self._loop.call_later(wait_s, self._expire), deadline_ms

    def _expire(self) -> None:
        self._timer = None
        now_ms, due = self._time.now_ms(), True
        while due:
            try:
                due = self._shard.expire(now_ms)
            except Exception:
                log.exception("not decided", extra=fields(shard=self.name, event_type="Expired"))
        self._go_on()
        self.append()

    # -- who waits ------------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        for answer in self._shard.take_answers():
            try:
                answer.ticket(answer)
            except Exception:
                log.exception("an answer was not taken", extra=fields(shard=self.name))

    def _tell(self) -> None:
        state = self._shard.state
        if state is not self._told:
            self._told = state
            self._on_state(state)
