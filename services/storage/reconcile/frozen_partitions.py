"""Frozen partitions: they serve nobody for a moment, while their logs change directory (`services/storage/moving/switching.py`).

Appends wait, reads are refused and come again, and nothing is copied to or from them. Leadership, the high watermark and the
produces that wait for it stay.
"""

import asyncio
from collections.abc import Callable, Collection

from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable


class FrozenPartitions:
    """`stop_fetching` ends the fetching of a frozen partition. `reconcile` catches up with the images and gives the role back."""

    def __init__(
        self,
        partitions: PartitionTable,
        busy: Collection[Key],
        stop_fetching: Callable[[Partition], None],
        reconcile: Callable[[Key], None],
    ) -> None:
        self._partitions = partitions
        self._busy = busy
        self._stop_fetching = stop_fetching
        self._reconcile = reconcile
        self._thawed: dict[Partition, asyncio.Event] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._thawed

    def freeze(self, partition: Partition) -> bool:
        """Freezes a partition until `unfreeze`. False: something else works on it."""
        key = partition.key
        if self._partitions.by_key.get(key) is not partition or partition.offline or partition.staged or key in self._busy:
            return False
        self._stop_fetching(partition)
        del self._partitions.by_key[key]
        self._thawed[partition] = asyncio.Event()
        return True

    def unfreeze(self, partition: Partition) -> None:
        self._thawed.pop(partition).set()
        self._partitions.by_key[partition.key] = partition
        self._reconcile(partition.key)

    async def released(self, partition: Partition) -> None:
        """Returns when the partition is not frozen."""
        while partition in self._thawed:
            await self._thawed[partition].wait()
