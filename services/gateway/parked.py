"""Batches that wait for a leader, first in first out per partition, within a budget of their own. No I/O."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.gateway.appends import Batch

Key = tuple[bytes, int]
"""(topic id, partition)"""

COPIED_BYTES_MAX = 65_536
"""A batch up to this is copied out of its receive chunk, which is larger and would be held otherwise."""


class Parked:
    """True when anything waits. One dead leader may fill the budget; the healthy never need it."""

    def __init__(self, bytes_max: int) -> None:
        self._queues: dict[Key, list[Batch]] = {}
        self._bytes_max = bytes_max
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, key: Key) -> bool:
        return key in self._queues

    def add(self, batch: Batch) -> bool:
        """False: over budget. A batch that was sent before joins in front of those that came after it."""
        size = len(batch.records)
        if self.bytes + size > self._bytes_max:
            return False
        if size <= COPIED_BYTES_MAX:
            batch.records = bytes(batch.records)
        insort(self._queues.setdefault(batch.key, []), batch, key=_order)
        self.bytes += size
        return True

    def keys(self) -> list[Key]:
        return list(self._queues)

    def first(self, key: Key) -> Batch | None:
        queue = self._queues.get(key)
        return queue[0] if queue else None

    def pop(self, key: Key) -> None:
        """Removes the first."""
        queue = self._queues[key]
        self.bytes -= len(queue.pop(0).records)
        if not queue:
            del self._queues[key]

    def take(self, key: Key) -> list[Batch]:
        queue = self._queues.pop(key, [])
        self.bytes -= sum(len(batch.records) for batch in queue)
        return queue

    def expire(self, now: float) -> list[Batch]:
        """Those whose deadline passed, and whatever waits behind them for the same partition.

        The later ones fail with the earlier, since to store them would reorder the client's records.
        """
        expired: list[Batch] = []
        for key in self.keys():
            queue = self._queues[key]
            late = next((at for at, batch in enumerate(queue) if batch.deadline <= now), None)
            if late is not None:
                kept, gone = queue[:late], queue[late:]
                expired += gone
                self._replace(key, kept, gone)
        return expired

    def drop(self, unwanted: Callable[[Batch], bool]) -> None:
        for key in self.keys():
            queue = self._queues[key]
            gone = [batch for batch in queue if unwanted(batch)]
            if gone:
                self._replace(key, [batch for batch in queue if not unwanted(batch)], gone)

    def _replace(self, key: Key, kept: list[Batch], gone: list[Batch]) -> None:
        self.bytes -= sum(len(batch.records) for batch in gone)
        if kept:
            self._queues[key] = kept
        else:
            del self._queues[key]


def _order(batch: Batch) -> int:
    return batch.order
