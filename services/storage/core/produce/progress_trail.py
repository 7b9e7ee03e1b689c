"""The last progress of replicas, kept for spans that are made after an append was answered.

One trail serves all partitions of a node, so its memory has a bound. Progress is noted only while an append waits.
"""

from collections import deque
from typing import NamedTuple

ENTRIES_MAX = 4_096


class Reached(NamedTuple):
    """When a replica had everything before an offset."""

    at: float
    exact: bool
    """False: it was then or before. The trail has forgotten what came earlier."""


class ProgressTrail:
    """Entries in the order of their times. `note` forgets the oldest."""

    __slots__ = ("_entries",)

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries: deque[tuple[float, tuple[bytes, int], int, int]] = deque(maxlen=entries_max)

    def note(self, key: tuple[bytes, int], node_id: int, position: int, now: float) -> None:
        """A replica of the partition has everything before `position`, in the sense in which it counts for commits."""
        self._entries.append((now, key, node_id, position))

    def reached(self, key: tuple[bytes, int], end_offset: int, since: float) -> dict[int, Reached]:
        """When each replica reached `end_offset`, which nobody had before `since`. Replicas that did not are missing."""
        entries = self._entries
        exact = len(entries) < (entries.maxlen or 0) or entries[0][0] <= since
        reached: dict[int, Reached] = {}
        for at, of_key, node_id, position in reversed(entries):
            if at < since:
                break
            if of_key == key and position >= end_offset:
                reached[node_id] = Reached(at, exact)
        return reached
