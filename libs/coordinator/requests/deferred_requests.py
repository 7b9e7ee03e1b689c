"""Deferred requests: their gateway knows topics that the image of this process lacks. They wait for the image, for a short time.

Decided on the older image, a commit would be stored for the former of two topics with the same name. It would be acknowledged,
and gone once this process sees the later one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from libs.rpc.server.call import Call
from libs.wire.apis import Api

E = TypeVar("E")

Write = Callable[[Any], bytes | bytearray]
"""Writes a response. Raises ValueError for one that the request's version cannot express."""

WAIT_S_MAX: Final = 0.2
"""Longest wait here. After it the gateway asks again until its own deadline, so a longer wait would only add to that."""


class DeferredRequest(NamedTuple, Generic[E]):
    """A request that was read and not decided. `topics_revision` is its gateway's."""

    call: Call
    api: Api
    write: Write
    shard: int
    event: E
    topics_revision: int


class DeferredRequests(Generic[E]):
    """The deferred requests, in the order of arrival. `refuse` ends one that waits too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, refuse: Callable[[DeferredRequest[E]], None]) -> None:
        self._loop = loop
        self._refuse = refuse
        self._waiting: deque[tuple[float, DeferredRequest[E]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def defer(self, request: DeferredRequest[E]) -> None:
        self._waiting.append((self._loop.time() + WAIT_S_MAX, request))
        self._arm()

    def take_ready(self, revision: int) -> list[DeferredRequest[E]]:
        """Removes the requests that an image of that revision is new enough for, and returns those whose caller still waits."""
        ready = [request for _, request in self._waiting if request.topics_revision <= revision]
        if ready:
            self._waiting = deque([entry for entry in self._waiting if entry[1].topics_revision > revision])
        return [request for request in ready if request.call.open]

    def close(self) -> None:
        """Refuses all that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for _, request in waiting:
            self._refuse(request)

    def _arm(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][0], self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() + 0.001  # the loop may call a timer one clock tick early
        while self._waiting and self._waiting[0][0] <= now:
            self._refuse(self._waiting.popleft()[1])
        self._arm()
