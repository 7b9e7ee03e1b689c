"""Appends whose caller is ahead of this node wait here until the node has caught up, and go on in their order.

The gateway's image is newer by milliseconds, or the partition is still being opened. What comes behind one that waits, for the
same partition, waits too: it would overtake.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from libs.runtime.waiting_lines import COPIED_BYTES_MAX, WaitingLines
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.hosted import Hosted, Key
from services.storage.partitions import Partitions
from services.storage.waiting import AppendRequest

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
PREMATURE = frozenset((NOT_LEADER, int(ErrorCode.UNKNOWN_TOPIC_ID), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
"""Refusals that this node may give only because it is behind. Failed disks and small ISRs are not a matter of waiting."""

WAIT_S_MAX = 5.0
WAITING_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Early:
    """One batch. `leader_epoch` and `revision` are those of the caller's image."""

    request: AppendRequest
    slot: int
    leader_epoch: int
    revision: int
    view: memoryview


class Earlies:
    """True when anything waits. `refuse` ends those that wait for longer than half of their timeout."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, partitions: Partitions, refuse: Callable[[AppendRequest, int, Refusal], None]
    ) -> None:
        self._loop = loop
        self._partitions = partitions
        self._refuse = refuse
        self._waiting: WaitingLines[Key, Early] = WaitingLines(WAITING_BYTES_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def hold(self, key: Key, early: Early, found: Hosted | Refusal) -> bool:
        """False: what was `found` is no reason to wait, or there is no room."""
        if key not in self._waiting and not self._is_early(key, early, found):
            return False
        request, size = early.request, len(early.view)
        if size <= COPIED_BYTES_MAX:
            early = replace(early, view=memoryview(bytearray(early.view)))
        deadline = request.received_at + min((request.deadline - request.received_at) / 2, WAIT_S_MAX)
        if not self._waiting.hold(key, early, size=size, deadline=deadline):
            return False
        request.written()
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        return True

    def leaving(self, admit: Callable[[Key, int, int], Hosted | Refusal]) -> Iterator[tuple[Early, Hosted | Refusal]]:
        """Those that need not wait any longer, with what `admit` says of them now."""
        for key in self._waiting.keys():  # noqa: SIM118 - a copy: those that leave are removed
            while (early := self._waiting.first(key)) is not None:
                found = admit(key, early.leader_epoch, early.request.acks)
                if self._is_early(key, early, found):
                    break
                self._waiting.pop(key)
                if not early.request.gone:  # else its caller has made other plans: storing it now could store it twice
                    yield early, found

    def stop(self) -> None:
        """From now on nothing is early."""
        self._closed = True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _is_early(self, key: Key, early: Early, found: Hosted | Refusal) -> bool:
        if isinstance(found, Hosted) or found.error not in PREMATURE or self._closed:
            return False
        return self._partitions.will_lead(key, early.leader_epoch, early.revision)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for early in self._waiting.expired(self._loop.time() + 0.001):  # the loop may call a timer one clock tick early
            self._refuse(early.request, early.slot, Refusal(NOT_LEADER))
        deadline = self._waiting.next_deadline()
        if deadline is not None:
            self._arm(deadline)
