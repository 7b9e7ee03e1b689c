"""The log directories that operators asked for before the reassignment that brings the replica."""

from services.storage.disks.disks import Disk, Disks
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable


class RequestedDirectories:
    """The requests, in memory as in Kafka: after a restart they must be made again."""

    def __init__(self, partitions: PartitionTable, disks: Disks) -> None:
        self._partitions = partitions
        self._disks = disks
        self._requested: dict[Key, Disk] = {}

    def request(self, key: Key, disk: Disk) -> None:
        """Takes a request. Those for partitions that have left are forgotten."""
        self._requested = {
            other: target for other, target in self._requested.items() if self._partitions.image.partition(*other) is not None
        }
        self._requested[key] = disk

    def directory_id(self, key: Key) -> str:
        """The requested directory, "" if there is none."""
        disk = self._requested.get(key)
        return disk.directory_id if disk in self._disks.usable else ""

    def forget(self, key: Key) -> None:
        """Forgets a request: the replica has its place."""
        self._requested.pop(key, None)
