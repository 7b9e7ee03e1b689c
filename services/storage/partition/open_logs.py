"""The open logs of this node, and the log directory in which each lies.

A log is here from its opening until it is closed, whatever role its partition has meanwhile. The disk type is a parameter, since
log directories import partitions.
"""

import asyncio
from typing import Generic, TypeVar

from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable

D = TypeVar("D")


class OpenLogs(Generic[D]):
    """The registry. The reconciler adds and removes logs; a move to another log directory replaces the disk."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self._by_key: dict[Key, tuple[Partition, D]] = {}
        self._awaited: dict[Key, list[asyncio.Future[None]]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def all(self) -> list[tuple[Partition, D]]:
        return list(self._by_key.values())

    def get(self, key: Key) -> tuple[Partition, D] | None:
        return self._by_key.get(key)

    def disk_of(self, partition: Partition) -> D | None:
        """The disk of an open log. None: the log is closed, or another partition has its key now."""
        entry = self._by_key.get(partition.key)
        return entry[1] if entry is not None and entry[0] is partition else None

    def is_in_use(self, partition: Partition) -> bool:
        """Whether the partition is here to stay, as far as is known, and its disk works.

        A partition that is about to be deleted must not get another sync round: that would look for its directory under the old
        name.
        """
        return self._partitions.by_key.get(partition.key) is partition and not partition.offline

    async def opened(self, key: Key, until: float) -> tuple[Partition, D] | None:
        """The log once it is open. None: it is not by `until`, in loop time."""
        opening = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(key, []).append(opening)
        try:
            async with asyncio.timeout_at(until):
                if key not in self._by_key:
                    await opening
        except TimeoutError:
            return None
        finally:
            waiting = [other for other in self._awaited.pop(key, ()) if other is not opening]
            if waiting:
                self._awaited[key] = waiting
        return self._by_key.get(key)

    def put(self, partition: Partition, disk: D) -> None:
        self._by_key[partition.key] = partition, disk
        for opening in self._awaited.get(partition.key, ()):
            if not opening.done():
                opening.set_result(None)

    def remove(self, key: Key) -> None:
        del self._by_key[key]
