"""Fetches that wait for bytes, by partition. Each waits on all of its partitions at once."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
F = TypeVar("F", bound=Hashable)


class ParkedFetches(Generic[K, F]):
    """The fetches that wake when a partition changes, in order of arrival, so that a replay wakes them alike."""

    __slots__ = ("_by_key", "_keys_of")

    def __init__(self) -> None:
        self._by_key: dict[K, dict[F, None]] = {}
        self._keys_of: dict[F, tuple[K, ...]] = {}

    def __len__(self) -> int:
        return len(self._keys_of)

    def __contains__(self, fetch: F) -> bool:
        return fetch in self._keys_of

    def park(self, fetch: F, keys: Iterable[K]) -> None:
        own = tuple(dict.fromkeys(keys))
        self._keys_of[fetch] = own
        for key in own:
            self._by_key.setdefault(key, {})[fetch] = None

    def is_awaited(self, key: K) -> bool:
        return key in self._by_key

    def waiting_on(self, key: K) -> tuple[F, ...]:
        return tuple(self._by_key.get(key, ()))

    def all(self) -> tuple[F, ...]:
        return tuple(self._keys_of)

    def remove(self, fetch: F) -> bool:
        """Takes out a fetch that was answered, was cancelled or ran out of time. False: it was not parked."""
        keys = self._keys_of.pop(fetch, None)
        if keys is None:
            return False
        for key in keys:
            waiting = self._by_key[key]
            del waiting[fetch]
            if not waiting:
                del self._by_key[key]
        return True
