"""Requests that wait until the markers of a transaction are written.

A producer that begins its next transaction at once would hear CONCURRENT_TRANSACTIONS, and wait for 20 ms to half a second
before it asks again. Markers take a few milliseconds. So its request waits here, for a bounded time, and is decided again right
behind the decision that completes the transaction: both share an append.
"""

import asyncio
from collections.abc import Callable
from typing import Final

WAIT_S_MAX: Final = 0.1
"""Longest wait. After it the client hears CONCURRENT_TRANSACTIONS."""


class Completions:
    """The requests that wait, by transactional id. It needs a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, dict[Callable[[], None], asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        """The number of transactional ids that somebody waits for."""
        return len(self._waiting)

    def wait(self, transactional_id: str, again: Callable[[], None]) -> None:
        """Calls `again` when the transaction is complete, or when that takes too long."""
        timer = self._loop.call_later(WAIT_S_MAX, self._expire, transactional_id, again)
        self._waiting.setdefault(transactional_id, {})[again] = timer

    def completed(self, transactional_id: str) -> None:
        for again, timer in self._waiting.pop(transactional_id, {}).items():
            timer.cancel()
            again()

    def close(self) -> None:
        """Forgets all that wait. Their callers' connections end."""
        for waiting in self._waiting.values():
            for timer in waiting.values():
                timer.cancel()
        self._waiting.clear()

    def _expire(self, transactional_id: str, again: Callable[[], None]) -> None:
        waiting = self._waiting[transactional_id]
        del waiting[again]
        if not waiting:
            del self._waiting[transactional_id]
        again()
