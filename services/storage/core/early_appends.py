"""Appends that came before what they name: they wait, first in first out per partition, within a budget. No I/O.

A gateway's image may be newer than this node's by milliseconds, and a partition that this node was just given may still be
opening. To refuse such an append would let those behind it, already on their way, be stored before its retry.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class EarlyAppends(Generic[K, T]):
    """True when anything waits. Whatever comes for a key that is in here must wait behind it."""

    __slots__ = ("_bytes_max", "_queues", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._queues: dict[K, deque[tuple[float, int, T]]] = {}
        self._bytes_max = bytes_max
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, key: K) -> bool:
        return key in self._queues

    def keys(self) -> list[K]:
        return list(self._queues)

    def hold(self, key: K, append: T, *, size: int, deadline: float) -> bool:
        """False: over budget."""
        if self.bytes + size > self._bytes_max:
            return False
        self._queues.setdefault(key, deque()).append((deadline, size, append))
        self.bytes += size
        return True

    def first(self, key: K) -> T | None:
        queue = self._queues.get(key)
        return queue[0][2] if queue else None

    def pop(self, key: K) -> None:
        """Removes the first."""
        queue = self._queues[key]
        self.bytes -= queue.popleft()[1]
        if not queue:
            del self._queues[key]

    def expired(self, now: float) -> list[T]:
        """Those whose deadline passed, and whatever waits behind them: to store the later ones would reorder."""
        gone: list[T] = []
        for key, queue in list(self._queues.items()):
            late = next((at for at, entry in enumerate(queue) if entry[0] <= now), None)
            while late is not None and len(queue) > late:
                _, size, append = queue.pop()
                self.bytes -= size
                gone.append(append)
            if not queue:
                del self._queues[key]
        return gone

    def next_deadline(self) -> float | None:
        return min((entry[0] for queue in self._queues.values() for entry in queue), default=None)
