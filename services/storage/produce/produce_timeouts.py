"""Timeouts of acks=all appends: the answer is REQUEST_TIMED_OUT. The records stay in the log, and may be committed later."""

import asyncio
from collections.abc import Callable, Iterable

from libs.wire.errors import ErrorCode
from services.storage.partition.append_answers import refused
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import Staged, StagedAppend
from services.storage.storage_meters import StorageMeters

REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


class ProduceTimeouts:
    """One timer for all partitions: deadlines rarely differ, and appends that time out are rarer still."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        meters: StorageMeters,
        traces: AppendTraces,
        uncommitted: Callable[[Partition, StagedAppend], Iterable[Staged]],
    ) -> None:
        """`uncommitted` answers what is committed of an append, and returns the rest, batch by batch."""
        self._loop = loop
        self._uncommitted = uncommitted
        self._traces = traces
        self._meters = meters
        self._watched: dict[Partition, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def watch(self, partition: Partition, deadline: float) -> None:
        """Notes that an append was parked there until `deadline`."""
        self._watched[partition] = None
        if self._timer is None or deadline < self._armed_for:
            self._arm(deadline)

    def forget(self, partition: Partition) -> None:
        """Drops a partition where nothing waits. Kept here, it would keep its files, and their space on a disk that may be
        full."""
        self._watched.pop(partition, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._armed_for = self._loop.call_at(deadline, self._expire), deadline

    def _expire(self) -> None:
        self._timer = None
        # The loop may call a timer up to one clock tick early.
        now = self._loop.time() + 0.001
        next_deadline: float | None = None
        for partition in list(self._watched):
            late = [append for each in partition.parked.expired(now) for append in self._uncommitted(partition, each)]
            for append in late:
                self._meters.expired_produces += 1
                partition.traffic.failed_produces += 1
                self._traces.answered(partition, append, now, REQUEST_TIMED_OUT)
                append.refuse(refused(REQUEST_TIMED_OUT))
            deadline = partition.parked.next_deadline()
            if deadline is None:
                del self._watched[partition]
            elif next_deadline is None or deadline < next_deadline:
                next_deadline = deadline
        if next_deadline is not None:
            self._arm(next_deadline)
