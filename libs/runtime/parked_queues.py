"""Queues of parked appends, one for each partition, within one budget of bytes. No I/O.

At a gateway, batches wait here for a leader. At a storage node, appends wait that came before their condition holds. In both,
later appends for the same partition must wait behind, and fail with the earlier ones: otherwise they would be stored before their
retry.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

COPIED_BYTES_MAX = 65_536
"""The largest batch that is copied out of its receive chunk before it waits. The chunk is larger, and would be held otherwise."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Entry(NamedTuple, Generic[T]):
    order: int
    deadline: float
    size: int
    item: T


class ParkedQueues(Generic[K, T]):
    """Queues of parked items, one for each key, in the order of arrival. It is true when an item waits."""

    __slots__ = ("_bytes_max", "_last_order", "_lines", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._lines: dict[K, deque[_Entry[T]]] = {}
        self._bytes_max = bytes_max
        self._last_order = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __contains__(self, key: K) -> bool:
        return key in self._lines

    def keys(self) -> list[K]:
        return list(self._lines)

    def hold(self, key: K, item: T, *, size: int, deadline: float, order: int | None = None) -> bool:
        """Parks an item at the end of its queue, or at its place in `order`: an item that left earlier joins in front of those
        that came after it. False: over budget."""
        if self.bytes + size > self._bytes_max:
            return False
        if order is None:
            order = self._last_order + 1
        self._last_order = max(self._last_order, order)
        line = self._lines.setdefault(key, deque())
        entry = _Entry(order, deadline, size, item)
        if not line or line[-1].order <= order:
            line.append(entry)
        else:
            insort(line, entry, key=_order)
        self.bytes += size
        return True

    def first(self, key: K) -> T | None:
        line = self._lines.get(key)
        return line[0].item if line else None

    def pop(self, key: K) -> None:
        """Removes the first item."""
        line = self._lines[key]
        self.bytes -= line.popleft().size
        if not line:
            del self._lines[key]

    def take(self, key: K) -> list[T]:
        """Removes the whole queue and returns its items."""
        line = self._lines.pop(key, deque())
        self.bytes -= sum(entry.size for entry in line)
        return [entry.item for entry in line]

    def expired(self, now: float) -> list[T]:
        """Removes the items whose deadline has passed, and all that wait behind them. Returns them in order."""
        removed: list[T] = []
        for key, line in list(self._lines.items()):
            late = next((at for at, entry in enumerate(line) if entry.deadline <= now), None)
            if late is not None:
                entries = list(line)
                self._keep(key, entries[:late], entries[late:])
                removed += [entry.item for entry in entries[late:]]
        return removed

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Removes the unwanted items silently. Items behind them stay."""
        for key, line in list(self._lines.items()):
            removed = [entry for entry in line if unwanted(entry.item)]
            if removed:
                self._keep(key, [entry for entry in line if not unwanted(entry.item)], removed)

    def next_deadline(self) -> float | None:
        return min((entry.deadline for line in self._lines.values() for entry in line), default=None)

    def _keep(self, key: K, remaining: list[_Entry[T]], removed: list[_Entry[T]]) -> None:
        self.bytes -= sum(entry.size for entry in removed)
        if remaining:
            self._lines[key] = deque(remaining)
        else:
            del self._lines[key]


def _order(entry: _Entry[T]) -> int:
    return entry.order
