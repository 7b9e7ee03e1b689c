"""Timers without an event loop: time passes when the test says so."""

import heapq
from collections.abc import Callable
from itertools import count


class FakeTimers:
    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []

    @property
    def pending(self) -> int:
        return len(self._timers)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), callback))
        return None

    def advance(self, seconds: float) -> None:
        """Lets time pass, and calls what is due meanwhile."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until + 1e-9:
            at, _, callback = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            callback()
        self.now = max(self.now, until)
