"""The turns of lookups that take long: one at a time for each disk, and the partitions of a disk in rotation.

So a client that looks up much in one partition delays others by one step, and a disk that hangs delays its own lookups only.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

WAITING_MAX = 1000
"""For each disk, so that one that hangs leaves room for lookups of others. Each holds a few hundred bytes: it has read nothing
yet."""


class TooManyLookups(Exception):
    """A lookup that was refused, since too many wait."""


class LookupTurns(Generic[T]):
    """The lookups that have a turn or wait for one. Each `join` that returned True, and each lookup that `end` returned, has the
    turn of its disk until the next `end`."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self._waiting: dict[str, dict[Hashable, deque[T]]] = {}
        """By disk that has a turn under way, and by partition."""
        self._count: dict[str, int] = {}
        """Those that wait, by disk."""

    @property
    def waiting(self) -> int:
        """Those that wait for any disk."""
        return sum(self._count.values())

    def waiting_for(self, disk: str) -> int:
        return self._count.get(disk, 0)

    @property
    def under_way(self) -> int:
        """The number of disks with a turn under way."""
        return len(self._waiting)

    def join(self, disk: str, partition: Hashable, lookup: T) -> bool:
        """Whether the lookup has the turn now. False: it waits. Raises TooManyLookups."""
        queues = self._waiting.get(disk)
        if queues is None:
            self._waiting[disk] = {}
            self._count.setdefault(disk, 0)
            return True
        if self._count[disk] >= self._waiting_max:
            raise TooManyLookups(f"{self._count[disk]} lookups wait for {disk}")
        queues.setdefault(partition, deque()).append(lookup)
        self._count[disk] += 1
        return False

    def leave(self, disk: str, partition: Hashable, lookup: T) -> None:
        """Takes out a lookup, if it still waits."""
        queues = self._waiting.get(disk, {})
        if lookup in queues.get(partition, ()):
            queues[partition].remove(lookup)
            if not queues[partition]:
                del queues[partition]
            self._count[disk] -= 1

    def end(self, disk: str) -> T | None:
        """Ends the turn of that disk. The next lookup, if there is one, has the turn now."""
        queues = self._waiting[disk]
        if not queues:
            del self._waiting[disk]
            return None
        partition = next(iter(queues))
        queue = queues.pop(partition)
        lookup = queue.popleft()
        if queue:
            queues[partition] = queue  # behind the other partitions
        self._count[disk] -= 1
        return lookup
