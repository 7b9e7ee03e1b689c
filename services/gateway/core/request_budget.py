"""The budget for requests of all client connections, Kafka's `queued.max.request.bytes`. No I/O.

A request counts until it is answered. A frame that does not fit into its connection's receive chunk counts while it arrives, and
gets room for all of it before it is read on. So a frame that is being read can be completed, and no two frames wait for each
other.

A holder of little may use all of the budget, a holder of much all but the reserve. So a few large frames, or the requests that
pile up behind a long poll, leave room for everybody else. A holder without room is not read. Whoever needs least gets room first:
to claim a large frame costs a client nothing, and must not delay the others.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

RESERVE_PART = 8
"""The reserve for holders of little is so many a part of the budget."""
LITTLE_PART = 8
"""A holder of little has so many a part of the reserve at most: 2 MiB of the default, twice the largest request of a producer
with Kafka's defaults."""
HEAP_SLACK = 64
"""A queue is built anew when so many entries, and half of all, are of holders that have left."""


class Holder(Protocol):
    @property
    def queued_bytes(self) -> int:
        """The bytes of its unanswered requests."""
        ...


H = TypeVar("H", bound=Holder)


class _Queue(Generic[H]):
    """Holders that wait, by what they need, and then in the order of asking."""

    __slots__ = ("_heap", "_orders", "_places")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, H]] = []
        self._places: dict[H, tuple[int, int]] = {}  # need and order. Entries of the heap without a place have left
        self._orders = count()

    def __contains__(self, holder: H) -> bool:
        return holder in self._places

    def needed(self, holder: H) -> int:
        return self._places[holder][0]

    def put(self, holder: H, needed: int) -> None:
        place = self._places[holder] = (needed, next(self._orders))
        heappush(self._heap, (*place, holder))

    def remove(self, holder: H) -> None:
        del self._places[holder]
        if len(self._heap) > 2 * len(self._places) + HEAP_SLACK:
            self._heap = [(*place, holder) for holder, place in self._places.items()]
            heapify(self._heap)

    def first(self) -> tuple[H, int] | None:
        heap = self._heap
        while heap:
            needed, order, holder = heap[0]
            if self._places.get(holder) == (needed, order):
                return holder, needed
            heappop(heap)
        return None


class RequestBudget(Generic[H]):
    """The bytes in use, the room of each frame that arrives, and the holders that wait for room.

    Sessions add their requests to `used` and subtract them. After a read a holder must `ask` before it is read on, if it needs
    room for a frame, or if `used` is above `short_at`.
    """

    __slots__ = (
        "_room",
        "_waiting_for_little",
        "_waiting_for_much",
        "bytes_max",
        "little_max",
        "queued",
        "short_at",
        "used",
        "waiting",
    )

    def __init__(self, bytes_max: int, frame_bytes_max: int) -> None:
        """`frame_bytes_max`: one frame of this size always fits beside a reserve, even if `bytes_max` is lower."""
        reserve = bytes_max // RESERVE_PART
        self.short_at = max(bytes_max - reserve, frame_bytes_max + reserve)
        """The bytes in front of the reserve."""
        self.bytes_max = self.short_at + reserve
        self.little_max = reserve // LITTLE_PART
        self.used = 0
        self.queued = 0
        """The number of requests that have not begun. Sessions count them."""
        self.waiting = 0
        """The number of holders that wait for room."""
        self._room: dict[H, int] = {}
        self._waiting_for_little: _Queue[H] = _Queue()
        self._waiting_for_much: _Queue[H] = _Queue()

    def room_of(self, holder: H) -> int:
        """The bytes of the frame that arrives."""
        return self._room.get(holder, 0)

    def waits(self, holder: H) -> bool:
        return holder in self._waiting_for_little or holder in self._waiting_for_much

    def ask(self, holder: H, needed: int) -> bool:
        """Whether the holder may be read on. False: it waits, and `admit` will return it.

        `needed`: the bytes of the incomplete frame. 0: there is none, or it fits into the chunk.
        """
        before = self._room.get(holder, 0)
        if before and needed == before:
            return True
        self._stop_waiting(holder)
        is_little = holder.queued_bytes + needed <= self.little_max
        if self.used + needed - before <= (self.bytes_max if is_little else self.short_at):
            self._give_room(holder, needed)
            return True
        (self._waiting_for_little if is_little else self._waiting_for_much).put(holder, needed)
        self.waiting += 1
        return False

    def ask_again(self, holder: H) -> bool:
        """The same for a holder that waits and holds less by now."""
        queue = self._waiting_for_much
        return holder in queue and self.ask(holder, queue.needed(holder))

    def admit(self) -> list[H]:
        """The holders that have room now, and are to be read on."""
        admitted: list[H] = []
        for queue, limit in ((self._waiting_for_little, self.bytes_max), (self._waiting_for_much, self.short_at)):
            while (first := queue.first()) is not None:
                holder, needed = first
                if self.used + needed > limit:
                    break
                self._stop_waiting(holder)
                self._give_room(holder, needed)
                admitted.append(holder)
        return admitted

    def completed(self, holder: H) -> None:
        """The frame is complete. From now on it counts as a request."""
        self.used -= self._room.pop(holder, 0)

    def withdraw(self, holder: H) -> None:
        """The holder needs no room for a frame any more, and waits for none. Its session subtracts its requests."""
        self.completed(holder)
        self._stop_waiting(holder)

    def _give_room(self, holder: H, needed: int) -> None:
        self.completed(holder)
        if needed:
            self._room[holder] = needed
            self.used += needed

    def _stop_waiting(self, holder: H) -> None:
        if self.waiting:
            for queue in (self._waiting_for_little, self._waiting_for_much):
                if holder in queue:
                    queue.remove(holder)
                    self.waiting -= 1
