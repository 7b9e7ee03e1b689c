"""Batches whose records must be validated. They wait while child processes open them, and go on in order of arrival.

A batch behind one that is being opened waits too, whether it must be opened or not: offsets and producers' sequences follow the
order of arrival. Batches that are cheaper to open than to send to a child are opened at once.

Order of effects: header checked → a copy leaves the receive buffer → opened in a child → first of its queue → `on_validated`,
which asks for admission again. A batch that waits too long, or whose partition is lost meanwhile, is answered then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from libs.runtime.children import ChildDied, Children
from libs.runtime.parked_queues import COPIED_BYTES_MAX
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import HEADER_SIZE
from libs.wire.record_batches.batches import BatchError, validate_produce
from libs.wire.record_batches.opened_batches import OpenedBatch, OpeningRules, Produced, RefusedBatch, open_all, open_one
from libs.wire.record_batches.record_survey import TooManyHeaders
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import AppendCall
from services.storage.produce.client_contexts import ClientContexts
from services.storage.produce.validation_job import INLINE_HEADERS_MAX, Job, PendingBatch, header_limits, is_cheap
from services.storage.storage_meters import StorageMeters

log = logging.getLogger("log")

GROUP_BYTES = 256 << 10
"""The bytes of waiting batches that go to a child together: up to this, its cost per batch falls."""
WAITING_BYTES_MAX = 256 << 20
"""The limit over all partitions. One connection has less than this outstanding, and is then not read from."""
ATTEMPTS = 2
VALIDATION = "validation of records"
"""What a batch waits for, in its trace."""


class BatchValidation:
    """Batches in validation. `on_validated` takes them in order of arrival per partition, `on_timeout` those that waited too
    long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        children: Children,
        count: int,
        meters: StorageMeters,
        contexts: ClientContexts,
        *,
        on_validated: Callable[[list[PendingBatch]], None],
        on_timeout: Callable[[PendingBatch], None],
    ) -> None:
        self._loop = loop
        self._children = children
        self._count = count
        self._meters = meters
        self._contexts = contexts
        self._on_validated = on_validated
        self._on_timeout = on_timeout
        self._queues: dict[Partition, deque[PendingBatch]] = {}
        # of each queue the batches that no child has yet; partitions are served in turn
        self._unopened: dict[Partition, deque[PendingBatch]] = {}
        # were in a job whose child died; each runs alone, so that a bad one harms no other
        self._retries: deque[PendingBatch] = deque()
        self._running = 0
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self.bytes = 0

    def take(
        self, partition: Partition, request: AppendCall, slot: int, view: memoryview, leader_epoch: int, now_ms: int
    ) -> PendingBatch | None:
        """The batch, if it can go on at once. None: it waits. Raises BatchError."""
        queue = self._queues.get(partition)
        rules: OpeningRules | None = partition.rules
        if rules is not None and (len(view) < HEADER_SIZE or not (rules.every_batch or rules.recompresses(view))):
            rules = None
        header = validate_produce(view, partition.limits if rules is None else header_limits(rules), now_ms)
        batch = PendingBatch(partition, request, slot, view, header, leader_epoch, rules, now_ms)
        if rules is not None and is_cheap(view, header, rules):
            with suppress(TooManyHeaders):
                batch.outcome = open_one(Produced(bytes(view), rules, now_ms), INLINE_HEADERS_MAX)
                batch.done = True
        if batch.done and queue is None:
            partition.opens = partition.rules is not None
            return batch
        self._enqueue(batch, queue)
        return None

    def drop(self, partition: Partition) -> list[PendingBatch]:
        """Takes the batches of a partition out. The caller answers them."""
        queue = self._queues.pop(partition, None)
        if queue is None:
            return []
        partition.opens = partition.rules is not None
        for batch in queue:
            self._remove(batch)
        return list(queue)

    def drop_all(self) -> list[PendingBatch]:
        return [batch for partition in list(self._queues) for batch in self.drop(partition)]

    def close(self) -> None:
        self.drop_all()
        if self._timer is not None:
            self._timer.cancel()
        self._children.close()

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def _enqueue(self, batch: PendingBatch, queue: deque[PendingBatch] | None) -> None:
        size = len(batch.view)
        if self.bytes + size > WAITING_BYTES_MAX:
            raise BatchError(ErrorCode.REQUEST_TIMED_OUT, "too many batches wait to be opened")
        if size <= COPIED_BYTES_MAX:
            batch.view = memoryview(bytearray(batch.view))
        batch.request.written()
        batch.request.waits_for(batch.slot, VALIDATION)
        partition = batch.partition
        if queue is None:
            queue = self._queues[partition] = deque()
        queue.append(batch)
        self.bytes += size
        if not batch.done:
            self._unopened.setdefault(partition, deque()).append(batch)
            if not self._scheduled:
                # Not now: the other batches of this read go to a child together with it.
                self._scheduled = True
                self._loop.call_soon(self._start_jobs)
        if self._timer is None or batch.deadline < self._timer.when():
            self._arm(batch.deadline)

    def _remove(self, batch: PendingBatch) -> None:
        batch.removed = True
        self.bytes -= len(batch.view)
        job = batch.job
        if job is not None and job.future is not None and all(batch.removed for batch in job.batches):
            job.future.cancel()  # which ends the child: it may be busy with this for long

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Times out late batches, and those behind them, which would otherwise overtake the retry."""
        self._timer = None
        now = self._loop.time() + 0.001  # the loop may call a timer one clock tick early
        for partition, queue in list(self._queues.items()):
            late = next((at for at, batch in enumerate(queue) if batch.deadline <= now), None)
            if late is None:
                continue
            expired = list(queue)[late:]
            for batch in expired:
                queue.pop()
                self._remove(batch)
            if not queue:
                del self._queues[partition]
                partition.opens = partition.rules is not None
            for batch in expired:
                self._on_timeout(batch)
        deadline = min((batch.deadline for queue in self._queues.values() for batch in queue), default=None)
        if deadline is not None:
            self._arm(deadline)

    # -- opening ----------------------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        self._scheduled = False
        while self._running < self._count and (group := self._next_group()):
            job = Job(group)
            for batch in group:
                batch.job = job
            self._running += 1
            now = self._loop.time()
            argument = [
                Produced(bytes(batch.view), batch.rules or OpeningRules(), batch.now_ms, self._contexts.wanted(batch, now))
                for batch in group
            ]
            job.future = self._children.run(open_all, argument)
            job.future.add_done_callback(partial(self._answered, job))

    def _next_group(self) -> list[PendingBatch]:
        while self._retries:
            batch = self._retries.popleft()
            if not batch.removed:
                return [batch]
        group: list[PendingBatch] = []
        abandoned: list[Partition] = []
        size = 0
        while self._unopened and size < GROUP_BYTES:
            partition = next(iter(self._unopened))
            waiting = self._unopened.pop(partition)
            batch = waiting.popleft()
            if waiting:
                self._unopened[partition] = waiting  # behind the other partitions
            if batch.request.cancelled:
                batch.done = True  # nobody waits for it; `_validated` skips it
                abandoned.append(partition)
            elif not batch.removed:
                group.append(batch)
                size += len(batch.view)
        self._advance(abandoned)
        return group

    def _answered(self, job: Job, future: "asyncio.Future[list[OpenedBatch | RefusedBatch]]") -> None:
        self._running -= 1
        error = ChildDied("ended with its job") if future.cancelled() else future.exception()
        if error is not None:
            self._failed([batch for batch in job.batches if not batch.removed], error)
        else:
            for batch, outcome in zip(job.batches, future.result(), strict=True):
                batch.outcome, batch.done = outcome, True
                self._contexts.take(batch, outcome)
        for batch in job.batches:
            batch.job = None
        self._advance(dict.fromkeys(batch.partition for batch in job.batches))
        self._start_jobs()

    def _failed(self, batches: list[PendingBatch], error: BaseException) -> None:
        if batches:
            log.error(
                "batches not opened",
                exc_info=None if isinstance(error, ChildDied) else error,
                extra=fields(batches=len(batches), reason=error),
            )
        for batch in batches:
            batch.attempts += 1
            if batch.attempts < ATTEMPTS:
                self._retries.append(batch)
            else:
                batch.outcome = RefusedBatch(int(ErrorCode.KAFKA_STORAGE_ERROR), "the batch could not be opened")
                batch.done = True

    def _advance(self, partitions: Iterable[Partition]) -> None:
        """Hands on the batches that are first in their queues and done."""
        ready: list[PendingBatch] = []
        now = self._loop.time()
        for partition in partitions:
            queue = self._queues.get(partition)
            if queue is None:
                continue
            while queue and queue[0].done:
                batch = queue.popleft()
                self._remove(batch)
                self._meters.opening.observe(now - batch.arrived_at)
                ready.append(batch)
            if not queue:
                del self._queues[partition]
                partition.opens = partition.rules is not None
        if ready:
            self._on_validated(ready)
