"""Answers acks=all appends whose time is up: 7 REQUEST_TIMED_OUT. They stay in the log, and may be committed later."""

import asyncio

from libs.wire.errors import ErrorCode
from services.storage.append_messages import refused
from services.storage.hosted import Hosted
from services.storage.meters import Meters

TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


class Expiry:
    """One timer for all partitions: deadlines rarely differ, and appends that time out are rarer still."""

    def __init__(self, loop: asyncio.AbstractEventLoop, meters: Meters) -> None:
        self._loop = loop
        self._meters = meters
        self._watched: dict[Hosted, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def watch(self, hosted: Hosted, deadline: float) -> None:
        """Something was parked there until `deadline`."""
        self._watched[hosted] = None
        if self._timer is None or deadline < self._armed_for:
            self._arm(deadline)

    def forget(self, hosted: Hosted) -> None:
        """Nothing waits there any more: whoever is kept here keeps its files, and their space on a disk that may be full."""
        self._watched.pop(hosted, None)

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
        for hosted in list(self._watched):
            for one in hosted.parked.expired(now):
                self._meters.expired_produces += 1
                self._meters.failed_produces += 1
                one.refuse(refused(TIMED_OUT))
            deadline = hosted.parked.next_deadline()
            if deadline is None:
                del self._watched[hosted]
            elif next_deadline is None or deadline < next_deadline:
                next_deadline = deadline
        if next_deadline is not None:
            self._arm(next_deadline)
