"""Delayed calls on the event loop, which a stop cancels."""

import asyncio
from collections.abc import Callable


class Timers:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.TimerHandle] = set()

    def later(self, delay_s: float, work: Callable[[], object]) -> None:
        def run() -> None:
            self._waiting.discard(handle)
            work()

        handle = self._loop.call_later(delay_s, run)
        self._waiting.add(handle)

    def close(self) -> None:
        for handle in self._waiting:
            handle.cancel()
