"""Requests that nobody can be asked for now. They are told when that may be over: new images, connections that came up."""

import asyncio
from collections.abc import Callable

AGAIN_S = 0.25
"""For what neither announces."""


class Unready:
    """Each `wait` calls back once, unless it is taken back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, told: Callable[[], None]) -> None:
        self._waiting[told] = None
        if self._timer is None:
            self._timer = self._loop.call_later(AGAIN_S, self.tell)

    def take_back(self, told: Callable[[], None]) -> None:
        self._waiting.pop(told, None)

    def tell(self) -> None:
        """In the order in which they came. Who waits again is told the next time."""
        self.close()
        waiting, self._waiting = self._waiting, {}
        for told in waiting:
            told()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
