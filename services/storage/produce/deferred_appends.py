"""Deferred appends: their caller's image is ahead of this node's, so they wait until the node has caught up, in order.

The gateway's image is newer by milliseconds, or the partition is still being opened. Later appends for the same partition wait
behind a deferred one, since they would overtake it.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from libs.lean_dataclass import dataclass
from libs.runtime.parked_queues import COPIED_BYTES_MAX, ParkedQueues
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.pending_append import AppendCall

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
PREMATURE = frozenset((NOT_LEADER_OR_FOLLOWER, int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
"""Refusals that this node may give only because it is behind. Waiting mends no failed disk and no small ISR."""

WAIT_S_MAX = 5.0
WAITING_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class DeferredAppend:
    """One batch. `leader_epoch` and `revision` are those of the caller's image."""

    key: Key
    request: AppendCall
    slot: int
    leader_epoch: int
    revision: int
    view: memoryview


class DeferredAppends:
    """The deferred appends; true if there are any. `refuse` ends those that wait longer than half of their timeout."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, partitions: PartitionTable, refuse: Callable[[Key, AppendCall, int, Refusal], None]
    ) -> None:
        self._loop = loop
        self._partitions = partitions
        self._refuse = refuse
        self._waiting: ParkedQueues[Key, DeferredAppend] = ParkedQueues(WAITING_BYTES_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def defer(self, append: DeferredAppend, admitted: Partition | Refusal) -> bool:
        """Keeps an append. False: there is no reason to wait after `admitted`, or no room."""
        key = append.key
        if key not in self._waiting and not self._is_premature(append, admitted):
            return False
        request, size = append.request, len(append.view)
        if size <= COPIED_BYTES_MAX:
            append = replace(append, view=memoryview(bytearray(append.view)))
        deadline = request.received_at + min((request.deadline - request.received_at) / 2, WAIT_S_MAX)
        if not self._waiting.hold(key, append, size=size, deadline=deadline):
            return False
        request.written()
        request.waits_for(append.slot, "leadership")
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        return True

    def take_ready(
        self, admit: Callable[[Key, int, int], Partition | Refusal]
    ) -> Iterator[tuple[DeferredAppend, Partition | Refusal]]:
        """Takes out the appends that need not wait any longer, with the result of `admit` for each."""
        for key in self._waiting.keys():  # noqa: SIM118 - a copy: those that leave are removed
            while (append := self._waiting.first(key)) is not None:
                admitted = admit(key, append.leader_epoch, append.request.acks)
                if self._is_premature(append, admitted):
                    break
                self._waiting.pop(key)
                if (
                    not append.request.cancelled
                ):  # else its caller may have sent it elsewhere: stored now, it could be stored twice
                    yield append, admitted

    def stop(self) -> None:
        """From now on no append is deferred."""
        self._closed = True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _is_premature(self, append: DeferredAppend, admitted: Partition | Refusal) -> bool:
        if isinstance(admitted, Partition) or admitted.error not in PREMATURE or self._closed:
            return False
        return self._partitions.will_lead(append.key, append.leader_epoch, append.revision)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for append in self._waiting.expired(self._loop.time() + 0.001):  # the loop may call a timer one clock tick early
            self._refuse(append.key, append.request, append.slot, Refusal(NOT_LEADER_OR_FOLLOWER))
        deadline = self._waiting.next_deadline()
        if deadline is not None:
            self._arm(deadline)
