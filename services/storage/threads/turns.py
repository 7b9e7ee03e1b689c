"""Cooperative loops over all partitions: every few milliseconds they let other work go first."""

import asyncio

STRETCH_S = 0.005
"""The time between turns. A partition costs microseconds, or milliseconds if its files are opened, so counts bound nothing."""


class Turns:
    """The turns: `await turns.taken()` between two steps."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()

    async def taken(self) -> None:
        if self._loop.time() - self._since >= STRETCH_S:
            await asyncio.sleep(0)
            self._since = self._loop.time()
