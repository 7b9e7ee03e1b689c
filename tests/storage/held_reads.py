"""The store's reads of partitions, which a test counts and holds."""

import asyncio
from collections.abc import Callable

import pytest

from libs.cluster import keys
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import KeyValue
from tests.storage.cluster import StorageCluster


class HeldReads:
    """The store's reads of partitions, counted, and held once they are served until `release`."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._get = store.get
        self._answering = asyncio.Event()
        self._answering.set()
        self.served = 0
        monkeypatch.setattr(store, "get", self._held)

    def hold(self) -> None:
        self._answering.clear()

    def release(self) -> None:
        self._answering.set()

    async def _held(self, key: str) -> KeyValue | None:
        answer = await self._get(key)
        if key.startswith(keys.PARTITIONS):
            self.served += 1
            await self._answering.wait()
        return answer


Cut = Callable[[StorageCluster, HeldReads], None]
"""Keeps a node from reading the store."""


def cut_off(cluster: StorageCluster, reads: HeldReads) -> None:
    cluster.store.unavailable = True


def unanswered(cluster: StorageCluster, reads: HeldReads) -> None:
    reads.hold()
