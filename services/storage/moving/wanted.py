"""In which log directory a replica is to be made that is not here yet: asked for before the reassignment that brings it."""

from services.storage.disks import Disk, Disks
from services.storage.hosted import Key
from services.storage.partitions import Partitions


class WantedDirectories:
    """In memory, as in Kafka: after a restart it must be asked for again."""

    def __init__(self, partitions: Partitions, disks: Disks) -> None:
        self._partitions = partitions
        self._disks = disks
        self._wanted: dict[Key, Disk] = {}

    def want(self, key: Key, disk: Disk) -> None:
        """Only of partitions that there are: those that went meanwhile are forgotten."""
        self._wanted = {one: where for one, where in self._wanted.items() if self._partitions.image.partition(*one) is not None}
        self._wanted[key] = disk

    def directory_id(self, key: Key) -> str:
        """ "" if any will do."""
        disk = self._wanted.get(key)
        return disk.directory_id if disk in self._disks.usable else ""

    def settled(self, key: Key) -> None:
        """It is somewhere."""
        self._wanted.pop(key, None)
