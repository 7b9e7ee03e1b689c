"""What a table will hold after records that are not replayed yet: a decision reads what its own earlier records do."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final[Any] = object()
_UNTOUCHED: Final[Any] = object()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """Costs what is changed, not what is there."""

    __slots__ = ("_more", "_over", "_under")

    def __init__(self, under: Mapping[K, V]) -> None:
        self._under = under
        self._over: dict[K, V] = {}
        self._more = 0

    def __getitem__(self, key: K) -> V:
        found: V = self._over.get(key, _UNTOUCHED)
        if found is _UNTOUCHED:
            return self._under[key]
        if found is _GONE:
            raise KeyError(key)
        return found

    def get(self, key: K, default: Any = None, /) -> Any:
        found = self._over.get(key, _UNTOUCHED)
        if found is _UNTOUCHED:
            return self._under.get(key, default)
        return default if found is _GONE else found

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
        found = self.get(key, _GONE)
        if found is not _GONE:
            del self[key]
            return found
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
