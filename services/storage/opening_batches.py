"""Batches whose records must be looked at wait here while child processes open them, and go on in the order of their arrival.

What comes for a partition behind one that is being opened waits too, whether it must be opened or not: offsets and producers'
sequences are given in order of arrival. Batches that are cheaper to open than to send to a child are opened at once.

Order of effects: header checked → a copy leaves the receive buffer → opened in a child → first in its line → `go_on`, which
asks again whether the partition may be appended to. Who waits too long, or whose partition is lost meanwhile, is answered then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from libs.runtime.children import ChildDied, Children
from libs.runtime.waiting_lines import COPIED_BYTES_MAX
from libs.telemetry.logs import fields
from libs.wire.batch_layout import HEADER_SIZE
from libs.wire.batches import BatchError, validate_produce
from libs.wire.errors import ErrorCode
from libs.wire.opened_batches import OpenedBatch, OpeningRules, Produced, RefusedBatch, open_all, open_one
from libs.wire.record_survey import TooMuchToDo
from services.storage.batch_opening import INLINE_HEADERS_MAX, Job, Opening, header_limits, is_cheap
from services.storage.hosted import Hosted
from services.storage.meters import Meters
from services.storage.waiting import AppendRequest

log = logging.getLogger(__name__)

GROUP_BYTES = 256 << 10
"""What waits goes to a child together, up to this: that is where its cost per batch goes down."""
WAITING_BYTES_MAX = 256 << 20
"""Of all partitions. One connection has less than this outstanding, and is not read from when it has that."""
ATTEMPTS = 2


class OpeningBatches:
    """`go_on` takes what is opened, first in first out in each partition; `time_out` what waited for too long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        children: Children,
        count: int,
        meters: Meters,
        *,
        go_on: Callable[[list[Opening]], None],
        time_out: Callable[[Opening], None],
    ) -> None:
        self._loop = loop
        self._children = children
        self._count = count
        self._meters = meters
        self._go_on = go_on
        self._time_out = time_out
        self._lines: dict[Hosted, deque[Opening]] = {}
        self._unopened: dict[Hosted, deque[Opening]] = {}  # of each line those that no child has yet; served in turn
        self._alone: deque[Opening] = deque()  # were in a job whose child died: whoever it was must not take others along
        self._running = 0
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self.bytes = 0

    def take(
        self, hosted: Hosted, request: AppendRequest, slot: int, view: memoryview, leader_epoch: int, now_ms: int
    ) -> Opening | None:
        """The batch if it can go on at once; None: it waits. Raises BatchError."""
        line = self._lines.get(hosted)
        rules: OpeningRules | None = hosted.rules
        if rules is not None and (len(view) < HEADER_SIZE or not (rules.every_batch or rules.recompresses(view))):
            rules = None
        header = validate_produce(view, hosted.limits if rules is None else header_limits(rules), now_ms)
        opening = Opening(hosted, request, slot, view, header, leader_epoch, rules, now_ms)
        if rules is not None and is_cheap(view, header, rules):
            with suppress(TooMuchToDo):
                opening.outcome = open_one(Produced(bytes(view), rules, now_ms), INLINE_HEADERS_MAX)
                opening.done = True
        if opening.done and line is None:
            hosted.opens = hosted.rules is not None
            return opening
        self._hold(opening, line)
        return None

    def drop(self, hosted: Hosted) -> list[Opening]:
        """Whoever waits for this partition leaves, and is the caller's to answer."""
        line = self._lines.pop(hosted, None)
        if line is None:
            return []
        hosted.opens = hosted.rules is not None
        for opening in line:
            self._leave(opening)
        return list(line)

    def drop_all(self) -> list[Opening]:
        return [opening for hosted in list(self._lines) for opening in self.drop(hosted)]

    def close(self) -> None:
        self.drop_all()
        if self._timer is not None:
            self._timer.cancel()
        self._children.close()

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def _hold(self, opening: Opening, line: deque[Opening] | None) -> None:
        size = len(opening.view)
        if self.bytes + size > WAITING_BYTES_MAX:
            raise BatchError(ErrorCode.REQUEST_TIMED_OUT, "too many batches wait to be opened")
        if size <= COPIED_BYTES_MAX:
            opening.view = memoryview(bytearray(opening.view))
        opening.request.written()
        hosted = opening.hosted
        if line is None:
            line = self._lines[hosted] = deque()
        line.append(opening)
        self.bytes += size
        if not opening.done:
            self._unopened.setdefault(hosted, deque()).append(opening)
            if not self._scheduled:
                # Not now: what else this read brings goes to a child together.
                self._scheduled = True
                self._loop.call_soon(self._give)
        if self._timer is None or opening.deadline < self._timer.when():
            self._arm(opening.deadline)

    def _leave(self, opening: Opening) -> None:
        opening.left = True
        self.bytes -= len(opening.view)
        job = opening.job
        if job is not None and job.future is not None and all(each.left for each in job.batches):
            job.future.cancel()  # which ends the child: it may be busy with this for a long time yet

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Those that are late, and whoever waits behind them: going on now, they would overtake the retry."""
        self._timer = None
        now = self._loop.time() + 0.001  # the loop may call a timer one clock tick early
        for hosted, line in list(self._lines.items()):
            late = next((at for at, opening in enumerate(line) if opening.deadline <= now), None)
            if late is None:
                continue
            expired = list(line)[late:]
            for opening in expired:
                line.pop()
                self._leave(opening)
            if not line:
                del self._lines[hosted]
                hosted.opens = hosted.rules is not None
            for opening in expired:
                self._time_out(opening)
        deadline = min((opening.deadline for line in self._lines.values() for opening in line), default=None)
        if deadline is not None:
            self._arm(deadline)

    # -- opening ----------------------------------------------------------------------------------------------------------

    def _give(self) -> None:
        self._scheduled = False
        while self._running < self._count and (group := self._next_group()):
            job = Job(group)
            for opening in group:
                opening.job = job
            self._running += 1
            argument = [Produced(bytes(one.view), one.rules or OpeningRules(), one.now_ms) for one in group]
            job.future = self._children.run(open_all, argument)
            job.future.add_done_callback(partial(self._answered, job))

    def _next_group(self) -> list[Opening]:
        while self._alone:
            opening = self._alone.popleft()
            if not opening.left:
                return [opening]
        group: list[Opening] = []
        abandoned: list[Hosted] = []
        size = 0
        while self._unopened and size < GROUP_BYTES:
            hosted = next(iter(self._unopened))
            waiting = self._unopened.pop(hosted)
            opening = waiting.popleft()
            if waiting:
                self._unopened[hosted] = waiting  # behind the others
            if opening.request.gone:
                opening.done = True  # nobody waits for it; whoever takes it from the line sees that
                abandoned.append(hosted)
            elif not opening.left:
                group.append(opening)
                size += len(opening.view)
        self._advance(abandoned)
        return group

    def _answered(self, job: Job, future: "asyncio.Future[list[OpenedBatch | RefusedBatch]]") -> None:
        self._running -= 1
        error = ChildDied("ended with its job") if future.cancelled() else future.exception()
        if error is not None:
            self._failed([opening for opening in job.batches if not opening.left], error)
        else:
            for opening, outcome in zip(job.batches, future.result(), strict=True):
                opening.outcome, opening.done = outcome, True
        for opening in job.batches:
            opening.job = None
        self._advance(dict.fromkeys(opening.hosted for opening in job.batches))
        self._give()

    def _failed(self, batches: list[Opening], error: BaseException) -> None:
        if batches:
            log.error(
                "batches not opened",
                exc_info=None if isinstance(error, ChildDied) else error,
                extra=fields(batches=len(batches), reason=error),
            )
        for opening in batches:
            opening.attempts += 1
            if opening.attempts < ATTEMPTS:
                self._alone.append(opening)
            else:
                opening.outcome = RefusedBatch(int(ErrorCode.KAFKA_STORAGE_ERROR), "the batch could not be opened")
                opening.done = True

    def _advance(self, partitions: Iterable[Hosted]) -> None:
        """Lets go of whoever is first and done."""
        ready: list[Opening] = []
        now = self._loop.time()
        for hosted in partitions:
            line = self._lines.get(hosted)
            if line is None:
                continue
            while line and line[0].done:
                opening = line.popleft()
                self._leave(opening)
                self._meters.opening.observe(now - opening.arrived_at)
                ready.append(opening)
            if not line:
                del self._lines[hosted]
                hosted.opens = hosted.rules is not None
        if ready:
            self._go_on(ready)
