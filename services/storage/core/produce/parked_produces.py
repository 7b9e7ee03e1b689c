"""Produces with acks=all that wait for the high watermark of one partition."""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class ParkedProduces(Generic[T]):
    """Produces that wait, by the offset that must be committed for them. The caller answers what the methods return.

    They arrive and leave in order of offsets, but for a duplicate of a batch that is not committed yet. It waits for the
    original's offset.
    """

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, float, T]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def park(self, required_offset: int, deadline: float, produce: T) -> None:
        """Makes `produce` wait until the high watermark reaches `required_offset`, at most until `deadline`."""
        self._arrivals += 1
        heapq.heappush(self._heap, (required_offset, self._arrivals, deadline, produce))

    def committed(self, high_watermark: int) -> list[T]:
        """The produces that the high watermark has reached."""
        heap = self._heap
        reached: list[T] = []
        while heap and heap[0][0] <= high_watermark:
            reached.append(heapq.heappop(heap)[3])
        return reached

    def expired(self, now: float) -> list[T]:
        """The produces whose deadline has passed. Their records stay in the log; only the answer is REQUEST_TIMED_OUT."""
        late = [entry for entry in self._heap if entry[2] <= now]
        if late:
            self._heap = [entry for entry in self._heap if entry[2] > now]
            heapq.heapify(self._heap)
        return [entry[3] for entry in sorted(late, key=lambda entry: entry[1])]

    def next_deadline(self) -> float | None:
        return min((entry[2] for entry in self._heap), default=None)

    def drain(self) -> list[T]:
        """All produces, in order of arrival: leadership was lost, or the partition is gone."""
        produces = [entry[3] for entry in sorted(self._heap, key=lambda entry: entry[1])]
        self._heap = []
        return produces
