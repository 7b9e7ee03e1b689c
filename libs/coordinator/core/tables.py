"""Tables that note each change, so that records that were replayed too early can be reverted.

A decision's records are replayed before they are committed. The journal keeps what each table held before, oldest first. A mark
is a position in the journal. Committed changes are forgotten; failed ones are reverted, newest first.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, NoReturn, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_ABSENT: Final = object()


class Journal:
    """The journal of all tables of one shard. Marks only rise."""

    __slots__ = ("_commit_callbacks", "_forgotten", "_notes", "recording")

    def __init__(self) -> None:
        self._notes: list[tuple[dict[Any, Any], Any, Any]] = []
        self._forgotten = 0
        self._commit_callbacks: deque[tuple[int, Callable[[], None]]] = deque()
        self.recording = True
        """False while committed records are loaded, since these are never reverted."""

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def mark(self) -> int:
        """The position after the last change."""
        return self._forgotten + len(self._notes)

    def note(self, table: dict[Any, Any], key: object) -> None:
        """Notes the value under `key`. Call it before the change."""
        self._notes.append((table, key, dict.get(table, key, _ABSENT)))

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when everything noted so far is committed, and never if it is reverted. It must not raise."""
        self._notes.append(({}, None, _ABSENT))  # a position of its own, since the decision may have changed nothing
        self._commit_callbacks.append((self.mark, callback))

    def revert_to(self, mark: int) -> None:
        """Reverts all changes after `mark`."""
        notes, keep = self._notes, mark - self._forgotten
        assert keep >= 0, "committed changes cannot be reverted"
        while self._commit_callbacks and self._commit_callbacks[-1][0] > mark:
            self._commit_callbacks.pop()
        while len(notes) > keep:
            table, key, before = notes.pop()
            if before is _ABSENT:
                dict.pop(table, key, None)
            else:
                dict.__setitem__(table, key, before)

    def forget_to(self, mark: int) -> None:
        """Forgets the changes before `mark`, which are committed, and calls the callbacks that waited for them."""
        count = mark - self._forgotten
        if count > 0:
            del self._notes[:count]
            self._forgotten = mark
            while self._commit_callbacks and self._commit_callbacks[0][0] <= mark:
                self._commit_callbacks.popleft()[1]()


class Table(dict[K, V]):
    """A dict that notes each change before it is made. Values are never changed in place: put a new one, or another `Table`.

    Order is not part of the state. A compacted log replays in another order, and a revert may put a key back at the end. Code
    that needs an order keeps a number in the values.
    """

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def __setitem__(self, key: K, value: V) -> None:
        journal = self._journal
        if journal.recording:
            journal.note(self, key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        if self._journal.recording:
            self._journal.note(self, key)
        dict.__delitem__(self, key)

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, default: V, /) -> V: ...
    @overload
    def pop(self, key: K, default: D, /) -> V | D: ...
    def pop(self, key: K, default: Any = _ABSENT, /) -> Any:
        if key not in self:
            if default is _ABSENT:
                raise KeyError(key)
            return default
        if self._journal.recording:
            self._journal.note(self, key)
        return dict.pop(self, key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def update(self, other: Mapping[K, V] | Iterable[tuple[K, V]] = (), /, **_: NoReturn) -> None:  # type: ignore[override]
        for key, value in other.items() if isinstance(other, Mapping) else other:
            self[key] = value

    def __ior__(self, other: Any) -> "Table[K, V]":  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, key: K, default: V, /) -> V:
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[K, V]:
        key = next(reversed(self))  # dict raises KeyError here, not StopIteration
        return key, self.pop(key)


def add_to_count(counts: MutableMapping[Any, int], key: object, by: int) -> None:
    """Adds `by` to a count. A count of zero has no entry."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
