"""Loops over all partitions, on the event loop: whoever runs one lets others go first every few milliseconds."""

import asyncio

STRETCH_S = 0.005
"""A partition costs microseconds, or milliseconds if its files must be opened first: a number of partitions bounds nothing."""


class Turns:
    """`await turns.taken()` between two steps."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()

    async def taken(self) -> None:
        if self._loop.time() - self._since >= STRETCH_S:
            await asyncio.sleep(0)
            self._since = self._loop.time()
