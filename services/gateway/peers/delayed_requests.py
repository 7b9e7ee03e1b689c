"""Requests that have no reachable process now. They retry when that may have changed: with a new image or a new connection."""

import asyncio
from collections.abc import Callable

RETRY_S = 0.25
"""The pause until the next retry, for changes that neither announces."""


class DelayedRequests:
    """The waiting requests, as callbacks. Each `wait` calls back once, unless it is removed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, callback: Callable[[], None]) -> None:
        self._waiting[callback] = None
        if self._timer is None:
            self._timer = self._loop.call_later(RETRY_S, self.retry_all)

    def remove(self, callback: Callable[[], None]) -> None:
        self._waiting.pop(callback, None)

    def retry_all(self) -> None:
        """Calls back all requests, in their order of arrival. One that waits again is called back the next time."""
        self.close()
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
