"""Tables whose changes are noted, so that what was replayed too early can be taken back.

A decision's records are replayed before they are committed (DESIGN section 8). The journal keeps what each table held before,
oldest first; a mark is a place in it. What is committed is forgotten, what failed is reverted, the newest change first.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_ABSENT: Final = object()


class Journal:
    """Of all tables of one shard. Marks rise for as long as it lives."""

    __slots__ = ("_forgotten", "_notes", "_telling", "recording")

    def __init__(self) -> None:
        self._notes: list[tuple[dict[Any, Any], Any, Any]] = []
        self._forgotten = 0
        self._telling: deque[tuple[int, Callable[[], None]]] = deque()
        self.recording = True
        """False while committed records are read: nothing of that is ever taken back."""

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def mark(self) -> int:
        """Of all that was noted until now."""
        return self._forgotten + len(self._notes)

    def note(self, table: dict[Any, Any], key: object) -> None:
        """Before the change."""
        self._notes.append((table, key, dict.get(table, key, _ABSENT)))

    def when_committed(self, tell: Callable[[], None]) -> None:
        """`tell` is called when all that was noted until now is committed; never, if it is taken back. It must not raise."""
        self._notes.append(({}, None, _ABSENT))  # a place of its own: what is told may have changed nothing
        self._telling.append((self.mark, tell))

    def revert_to(self, mark: int) -> None:
        """Takes back all that was noted after `mark`."""
        notes, keep = self._notes, mark - self._forgotten
        assert keep >= 0, "what is committed cannot be taken back"
        while self._telling and self._telling[-1][0] > mark:
            self._telling.pop()
        while len(notes) > keep:
            table, key, before = notes.pop()
            if before is _ABSENT:
                dict.pop(table, key, None)
            else:
                dict.__setitem__(table, key, before)

    def forget_to(self, mark: int) -> None:
        """All before `mark` is committed."""
        count = mark - self._forgotten
        if count > 0:
            del self._notes[:count]
            self._forgotten = mark
            while self._telling and self._telling[0][0] <= mark:
                self._telling.popleft()[1]()


class Table(dict[K, V]):
    """A dict that notes each change before it is made. Values are never changed in place: put a new one in, or another `Table`.

    Its order is not a part of the state: a compacted log replays in another order than that in which things happened, and a
    revert may put a key back at the end. Who needs an order keeps a number in the values.
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
        key = next(reversed(self))  # KeyError is dict's word for it, StopIteration is not
        return key, self.pop(key)
