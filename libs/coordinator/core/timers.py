"""The timers of a shard: one deadline per key, in wall time.

A due timer only says *look*: its decision asks the state whether anything is due. Decisions set deadlines, and a reverted
decision gives the old deadline back. A decision without records is never reverted. So a heartbeat still counts when another
member's append is refused.
"""

from collections.abc import Hashable, Mapping
from heapq import heapify, heappop, heappush

TimerKey = Hashable

RETRY_MS = 500
"""How much later a timer fires again after its decision was reverted. Kafka waits as long."""


class Timers:
    """The deadlines of one shard. Marks work as in `tables.Journal`, but count separately."""

    __slots__ = ("_count", "_deadlines", "_forgotten", "_heap", "_notes")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._count = 0  # breaks ties by age, since keys are not comparable
        self._notes: list[tuple[TimerKey, int | None, int | None]] = []
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    @property
    def mark(self) -> int:
        return self._forgotten + len(self._notes)

    def deadline(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def set(self, changes: Mapping[TimerKey, int | None], *, undoable: bool) -> None:
        """Sets deadlines, in ms of wall time. None ends a timer."""
        for key, deadline in changes.items():
            if undoable:
                self._notes.append((key, self._deadlines.get(key), deadline))
            self._put(key, deadline)

    def take_due(self, now_ms: int) -> TimerKey | None:
        """The key of the earliest due timer, which is removed. If its decision is reverted, it is due again after `RETRY_MS`."""
        while self._heap and self._heap[0][0] <= now_ms:
            deadline, _, key = heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                del self._deadlines[key]
                self._notes.append((key, now_ms + RETRY_MS, None))
                return key
        return None

    def next_deadline(self) -> int | None:
        while self._heap:
            deadline, _, key = self._heap[0]
            if self._deadlines.get(key) == deadline:
                return deadline
            heappop(self._heap)
        return None

    def revert_to(self, mark: int) -> None:
        notes, keep = self._notes, mark - self._forgotten
        assert keep >= 0, "committed changes cannot be reverted"
        while len(notes) > keep:
            key, before, after = notes.pop()
            if self._deadlines.get(key) == after:  # else a heartbeat has moved it since
                self._put(key, before)

    def forget_to(self, mark: int) -> None:
        count = mark - self._forgotten
        if count > 0:
            del self._notes[:count]
            self._forgotten = mark

    def _put(self, key: TimerKey, deadline: int | None) -> None:
        if deadline is None:
            self._deadlines.pop(key, None)
            return
        if self._deadlines.get(key) == deadline:
            return
        self._deadlines[key] = deadline
        self._count += 1
        heappush(self._heap, (deadline, self._count, key))
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapify(self._heap)
