"""Produces with acks=all that wait for the high watermark of one partition."""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class ParkedProduces(Generic[T]):
    """Waiting appends by the offset that must be committed for them. Feed it facts, and answer what it hands back.

    What arrives in order leaves in order. Only a duplicate of something not yet committed arrives out of order: it waits for
    the original's offset.
    """

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, float, T]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def park(self, required_offset: int, deadline: float, produce: T) -> None:
        """Wait until the high watermark is at or past `required_offset`, at most until `deadline`."""
        self._arrivals += 1
        heapq.heappush(self._heap, (required_offset, self._arrivals, deadline, produce))

    def committed(self, high_watermark: int) -> list[T]:
        """Those that the high watermark has reached."""
        heap = self._heap
        reached: list[T] = []
        while heap and heap[0][0] <= high_watermark:
            reached.append(heapq.heappop(heap)[3])
        return reached

    def expired(self, now: float) -> list[T]:
        """Those whose deadline has passed. They stay in the log: only the answer is 7 REQUEST_TIMED_OUT."""
        late = [entry for entry in self._heap if entry[2] <= now]
        if late:
            self._heap = [entry for entry in self._heap if entry[2] > now]
            heapq.heapify(self._heap)
        return [entry[3] for entry in sorted(late, key=lambda entry: entry[1])]

    def next_deadline(self) -> float | None:
        return min((entry[2] for entry in self._heap), default=None)

    def drain(self) -> list[T]:
        """All of them, in order of arrival: leadership was lost, or the partition is gone."""
        everyone = [entry[3] for entry in sorted(self._heap, key=lambda entry: entry[1])]
        self._heap = []
        return everyone
