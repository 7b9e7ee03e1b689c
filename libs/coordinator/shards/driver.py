"""The shell of one shard: it calls the shard's log, feeds the core, sends answers and keeps timers. It decides nothing.

A task claims and loads. A shard that serves has no task: calls, appends and timers run it. Requests are decided in the order of
calls. Decisions of one turn share the next append, and so do those made while an append is in flight.
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
from libs.coordinator.core.decisions import Machine
from libs.coordinator.core.pending import Answer
from libs.coordinator.core.shard import Progress, Shard
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.write_errors import NOT_COORDINATOR, TOO_LARGE
from libs.coordinator.log.internal_log import Cancel, Claimed, InternalLog, Outcome, Read, Refused, Stored, Unknown
from libs.coordinator.shards.steady_time import SteadyTime
from libs.coordinator.shards.unwritable_decisions import UnwritableDecisions
from libs.coordinator.tracing.append_traces import AppendTraces
from libs.coordinator.tracing.call_spans import AppendTimes
from libs.telemetry.logs import fields
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError
from libs.wire.record_batches.key_values import latest_values

log = logging.getLogger("coordinators")

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")

NO_HIGH_WATERMARK_YET = Refused(ErrorCode.OFFSET_NOT_AVAILABLE)
"""A new leader does not know the high watermark yet. It learns it soon."""
REPLAYED_PER_TURN = 200
"""About two milliseconds of replay. Then other tasks of the event loop run."""
TIMER_CHECK_S_MAX = 5.0
"""Longest wait before timers are checked again: somebody may set the wall clock."""

OnAnswer = Callable[["Answer[Any, Any]"], None]
"""The callback of one request. It is called once."""

_RUNS = (State.SERVING, State.UNLOADING)


class ShardDriver(Generic[E, R, S]):
    """One shard at one owner, from its making until `closed`. It answers requests in every state, if only with an error."""

    def __init__(
        self,
        name: str,
        internal_log: InternalLog,
        make: Callable[[Journal], Machine[E, R, S]],
        owner_epoch: int,
        clock: Clock,
        time: SteadyTime,
        *,
        batch_bytes_max: int,
        on_state: Callable[[State], None] = lambda _: None,
        unwritable: UnwritableDecisions | None = None,
    ) -> None:
        """`time` is the process's, older than the shard: a clock that was set ahead just before must not end what it loads.
        `unwritable` is the process's, too."""
        self.name = name
        self.owner_epoch = owner_epoch
        self._log = internal_log
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._time = time
        self._shard: Shard[E, R, S, OnAnswer] = Shard(make, owner_epoch, batch_bytes_max=batch_bytes_max)
        self._on_state = on_state
        self._unwritable = unwritable or UnwritableDecisions(self._loop)
        self._reported_state = self._shard.state
        self._wake = asyncio.Event()
        self._call_in_flight: asyncio.Task[Any] | None = None
        """The claim or read that has no answer yet."""
        self._appending: Cancel | None = None
        self._append_sent_at = 0.0
        self._append_context: SpanContext | None = None
        self._append_traces = AppendTraces()
        self.append_times: AppendTimes | None = None
        """The append whose outcome the answers waited for that are being sent. None: they waited for none."""
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
        """The shard's machine, to be read only. Its tables also hold what is replayed and not committed yet."""
        return self._shard.machine

    @property
    def shard(self) -> Shard[E, R, S, OnAnswer]:
        """The state machine that this drives. To be read only."""
        return self._shard

    @property
    def progress(self) -> Progress:
        """How far the last loading has come."""
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

    def submit(self, event: E, on_result: "Callable[[Answer[R, Any]], None]", trace: SpanContext | None = None) -> bool:
        """Decides `event`. `on_result` is called once, perhaps before this returns. True if `append` is to be called at the end
        of the turn. `trace`: the context of the append that it will wait for."""
        try:
            self._shard.submit(event, self._time.now_ms(), on_result)
        except Exception:
            log.exception("decision failed", extra=fields(shard=self.name, event_type=type(event).__name__))
        if trace is not None:
            self._append_traces.note(self._shard.pending, trace)
        self._flush()
        return self._shard.wants_append

    def append(self) -> None:
        """Appends what was decided. While another append is in flight, the decisions wait for the next one."""
        try:
            planned = self._shard.next_append()
            if planned is not None:
                now_ms = self._clock.wall_ms()  # the leader compares it with its own clock
                self._append_sent_at = self._loop.time()
                traces = self._append_traces.take(self._shard.pending)
                self._append_context = traces[0] if traces else None
                self._appending = self._log.append(planned, now_ms, partial(self._appended, planned.offset), traces)
        except Exception:
            self._fail()

    def leader_moved(self) -> None:
        """The image names another leader. Calls in flight are dropped: the former leader may never answer them."""
        if self._call_in_flight is not None:
            self._call_in_flight.cancel()
        elif self._appending is not None:
            self._cancel_append()
            self._shard.outcome_unknown()
        elif self._shard.state is State.SERVING:
            self._shard.outcome_unknown(NOT_COORDINATOR)
        self._send_answers()
        self._wake.set()

    def unload(self) -> None:
        """The shard belongs to another owner now. An append in flight may still be answered; all else is refused."""
        self._shard.unload()
        if self._shard.state is State.CLOSED:
            if self._call_in_flight is not None:
                self._call_in_flight.cancel()
            self._cancel_append()
        self._send_answers()
        self._wake.set()

    async def closed(self) -> None:
        """Waits for the end. Call `unload` first."""
        await asyncio.wait([self._task])

    # -- the task -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._shard.state is not State.CLOSED:
            try:
                await self._step()
            except Exception:
                self._restart()
                await self._pause()
            self._report_state()
        self._send_answers()

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
        self._send_answers()

    async def _claim(self) -> None:
        leader_epoch = self._log.leader_epoch()
        if leader_epoch is None:
            await self._pause()
            return
        shard = self._shard
        fence = shard.next_claim(leader_epoch)
        outcome = await self._call(self._log.claim(fence))
        if shard.state is not State.CLAIMING:
            return
        match outcome:
            case Claimed(log_start, log_end):
                shard.claimed(log_start, log_end)
            case Refused(error) if error == NOT_COORDINATOR:
                shard.fenced()
            case _:
                shard.outcome_unknown()
                await self._pause()

    async def _load(self) -> None:
        shard = self._shard
        end = shard.progress.end
        if shard.position >= end:
            self._loaded(end)
            return
        outcome = await self._call(self._log.read(shard.fence, shard.position))
        if shard.state is not State.LOADING:
            return
        if not isinstance(outcome, Read):
            if outcome != NO_HIGH_WATERMARK_YET:
                shard.outcome_unknown()
            await self._pause()
            return
        try:
            found, position = latest_values(outcome.batches, shard.position, end)
        except BatchError as error:
            log.error("shard cannot be read", extra=fields(shard=self.name, offset=shard.position, reason=error))
            shard.outcome_unknown()
            await self._pause()
            return
        if position == shard.position and outcome.high_watermark >= end:
            position = end  # compaction removed the last records
        for values, transaction in found:
            records = iter(values.items())
            while chunk := list(islice(records, REPLAYED_PER_TURN)):
                shard.replay_committed(chunk, transaction)
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
        self._flush()
        while self._shard.state in _RUNS:
            self._wake.clear()
            await self._wake.wait()
        self._set_timer(None)
        if self._failed:
            self._failed = False
            await self._pause()

    async def _call(self, call: "Coroutine[Any, Any, A]") -> "A | Unknown":
        """The result of `call`, or Unknown when `leader_moved` ends it early."""
        self._call_in_flight = task = self._loop.create_task(call)
        try:
            await asyncio.wait([task])
        finally:
            self._call_in_flight = None
            if not task.done():
                task.cancel()
        return Unknown("the leader moved") if task.cancelled() else task.result()

    async def _pause(self) -> None:
        """Waits for a new image, at most as long as the backoff says."""
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next_s()):
                await self._wake.wait()

    # -- serving --------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Sends the answers that are ready, and sets the timer for the next deadline."""
        self._send_answers()
        if self._shard.unwritable:
            self._note_unwritable()
        deadline = self._shard.next_deadline()  # None unless the shard serves
        if deadline is not None and (self._timer is None or deadline < self._timer_ms):
            self._set_timer(deadline)

    def _appended(self, offset: int, outcome: Outcome) -> None:
        self._appending = None
        self.append_times = AppendTimes(self._append_sent_at, self._loop.time(), self._append_context, self._log.asked)
        shard = self._shard
        try:
            if type(outcome) is Stored and outcome.base_offset == offset:
                shard.appended()
            elif type(outcome) is Refused:
                if outcome.error in TOO_LARGE:
                    self._unwritable.refused(self.name, shard.pending.first_bytes)
                shard.refused(outcome.error)
            else:
                shard.outcome_unknown()
        except Exception:
            self._fail()
        self._flush()
        self.append_times = None
        self.append()
        if shard.state is not State.SERVING:
            self._wake.set()

    def _note_unwritable(self) -> None:
        for unwritable in self._shard.unwritable:
            self._unwritable.note(self.name, unwritable)
        self._shard.unwritable.clear()

    def _cancel_append(self) -> None:
        """Drops the append in flight."""
        if self._appending is not None:
            self._appending()
            self._appending = None

    def _fail(self) -> None:
        self._failed = True
        self._cancel_append()
        self._restart()
        self._wake.set()

    def _restart(self) -> None:
        log.exception("shard failed", extra=fields(shard=self.name, state=self._shard.state.value))
        self._shard.restart_unless_closed()
        self._send_answers()

    def _set_timer(self, deadline_ms: int | None) -> None:
        """Sets the timer. A deadline that moved to a later time is noticed when the timer fires: heartbeats move deadlines all
        the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            wait_s = min(max((deadline_ms - self._time.now_ms()) / 1000, 0.001), TIMER_CHECK_S_MAX)
            self._timer, self._timer_ms = self._loop.call_later(wait_s, self._expire), deadline_ms

    def _expire(self) -> None:
        self._timer = None
        now_ms, due = self._time.now_ms(), True
        while due:
            try:
                due = self._shard.expire(now_ms)
            except Exception:
                log.exception("decision failed", extra=fields(shard=self.name, event_type="Expired"))
        self._flush()
        self.append()

    # -- answers --------------------------------------------------------------------------------------------------------

    def _send_answers(self) -> None:
        for answer in self._shard.take_answers():
            try:
                answer.ticket(answer)
            except Exception:
                log.exception("an answer callback failed", extra=fields(shard=self.name))

    def _report_state(self) -> None:
        state = self._shard.state
        if state is not self._reported_state:
            self._reported_state = state
            try:
                self._on_state(state)
            except Exception:
                log.exception("a state callback failed", extra=fields(shard=self.name, state=state.value))
