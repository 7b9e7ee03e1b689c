"""What a table will hold after records that are not replayed yet: a decision reads what its own earlier records do."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final[Any] = object()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """Costs what is changed, not what is there."""

    __slots__ = ("_length", "_over", "_under")

    def __init__(self, under: Mapping[K, V]) -> None:
        self._under = under
        self._over: dict[K, V] = {}
        self._length = len(under)

    def __getitem__(self, key: K) -> V:
        found = self._over.get(key)
        if found is _GONE:
            raise KeyError(key)
        if found is None and key not in self._over:
            return self._under[key]
        return found  # type: ignore[return-value]  # None where V has it

    def __contains__(self, key: object) -> bool:
        if key in self._over:
            return self._over[key] is not _GONE
        return key in self._under

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._length += 1
        self._over[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        self._over[key] = _GONE

    def __iter__(self) -> Iterator[K]:
        over = self._over
        yield from [key for key in self._under if over.get(key) is not _GONE]
        yield from [key for key, value in over.items() if value is not _GONE and key not in self._under]

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        self._under, self._over, self._length = {}, {}, 0
