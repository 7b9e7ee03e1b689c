"""A table with the changes of an unfinished decision on top, so that the decision sees the effect of its own records."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final[Any] = object()
_UNTOUCHED: Final[Any] = object()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """A mutable view of a mapping. Its cost depends on the changes, not on the size of the mapping."""

    __slots__ = ("_more", "_over", "_under")

    def __init__(self, under: Mapping[K, V]) -> None:
        self._under = under
        self._over: dict[K, V] = {}
        self._more = 0

    def __getitem__(self, key: K) -> V:
        value: V = self._over.get(key, _UNTOUCHED)
        if value is _UNTOUCHED:
            return self._under[key]
        if value is _GONE:
            raise KeyError(key)
        return value

    def get(self, key: K, default: Any = None, /) -> Any:
        value = self._over.get(key, _UNTOUCHED)
        if value is _UNTOUCHED:
            return self._under.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: object) -> bool:
        if key in self._over:
            return self._over[key] is not _GONE
        return key in self._under

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._more += 1
        self._over[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._more -= 1
        self._over[key] = _GONE

    def pop(self, key: K, default: Any = _UNTOUCHED, /) -> Any:
        value = self.get(key, _GONE)
        if value is not _GONE:
            del self[key]
            return value
        if default is _UNTOUCHED:
            raise KeyError(key)
        return default

    def __iter__(self) -> Iterator[K]:
        over = self._over
        yield from [key for key in self._under if over.get(key) is not _GONE]
        yield from [key for key, value in over.items() if value is not _GONE and key not in self._under]

    def __len__(self) -> int:
        return len(self._under) + self._more

    def clear(self) -> None:
        self._under, self._over, self._more = {}, {}, 0
