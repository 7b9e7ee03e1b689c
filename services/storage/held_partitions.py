"""Partitions that nobody is answered from for a moment, while their logs change hands (`services/storage/moving/switching.py`).

Appends wait, reads are sent away and come again, nothing is copied to or from them; leadership, high watermark and those who wait
for it stay.
"""

import asyncio
from collections.abc import Callable, Collection

from services.storage.hosted import Hosted, Key
from services.storage.partitions import Partitions


class HeldPartitions:
    """`let_go` ends that it follows somebody; `go_on` does what images have asked of it meanwhile, and gives it its role."""

    def __init__(
        self,
        partitions: Partitions,
        busy: Collection[Key],
        let_go: Callable[[Hosted], None],
        go_on: Callable[[Key], None],
    ) -> None:
        self._partitions = partitions
        self._busy = busy
        self._let_go = let_go
        self._go_on = go_on
        self._held: dict[Hosted, asyncio.Event] = {}

    def __contains__(self, hosted: Hosted) -> bool:
        return hosted in self._held

    def hold(self, hosted: Hosted) -> bool:
        """Until `release`. False: somebody else works on it."""
        key = hosted.key
        if self._partitions.by_key.get(key) is not hosted or hosted.offline or hosted.staged or key in self._busy:
            return False
        self._let_go(hosted)
        del self._partitions.by_key[key]
        self._held[hosted] = asyncio.Event()
        return True

    def release(self, hosted: Hosted) -> None:
        self._held.pop(hosted).set()
        self._partitions.by_key[hosted.key] = hosted
        self._go_on(hosted.key)

    async def released(self, hosted: Hosted) -> None:
        """Returns when it is not held."""
        while hosted in self._held:
            await self._held[hosted].wait()
