"""Appends that wait where they are until they can go on: a line per partition, all lines within one budget of bytes. No I/O.

A gateway lets batches wait here for a leader, a storage node those that came before what they name. In both, whatever comes
for a partition that somebody waits for must wait behind, and goes when those before it fail: else it would be stored before
their retry.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

COPIED_BYTES_MAX = 65_536
"""A batch up to this is copied out of its receive chunk before it waits: the chunk is larger, and would be held otherwise."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Entry(NamedTuple, Generic[T]):
    order: int
    deadline: float
    size: int
    item: T


class WaitingLines(Generic[K, T]):
    """True when anybody waits."""

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
        """At the end of the line, or where `order` says: one that left before joins in front of those that came after it.
        False: over budget."""
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
        """Removes the first."""
        line = self._lines[key]
        self.bytes -= line.popleft().size
        if not line:
            del self._lines[key]

    def take(self, key: K) -> list[T]:
        """The whole line."""
        line = self._lines.pop(key, deque())
        self.bytes -= sum(entry.size for entry in line)
        return [entry.item for entry in line]

    def expired(self, now: float) -> list[T]:
        """Those whose deadline passed and whoever waits behind them, in order. They are gone from here."""
        gone: list[T] = []
        for key, line in list(self._lines.items()):
            late = next((at for at, entry in enumerate(line) if entry.deadline <= now), None)
            if late is not None:
                entries = list(line)
                self._keep(key, entries[:late], entries[late:])
                gone += [entry.item for entry in entries[late:]]
        return gone

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Those leave without a word; who waits behind them stays."""
        for key, line in list(self._lines.items()):
            gone = [entry for entry in line if unwanted(entry.item)]
            if gone:
                self._keep(key, [entry for entry in line if not unwanted(entry.item)], gone)

    def next_deadline(self) -> float | None:
        return min((entry.deadline for line in self._lines.values() for entry in line), default=None)

    def _keep(self, key: K, kept: list[_Entry[T]], gone: list[_Entry[T]]) -> None:
        self.bytes -= sum(entry.size for entry in gone)
        if kept:
            self._lines[key] = deque(kept)
        else:
            del self._lines[key]


def _order(entry: _Entry[T]) -> int:
    return entry.order
