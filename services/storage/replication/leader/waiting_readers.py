"""Whoever waits for a partition to move: consumers' fetches and followers' pulls."""

from services.storage.fetches import Fetches
from services.storage.hosted import Key
from services.storage.pulls import Pulls


class Readers:
    def __init__(self, fetches: Fetches, pulls: Pulls) -> None:
        self._fetches = fetches
        self._pulls = pulls

    def wake(self, key: Key) -> None:
        """The partition's leader, its epoch or its existence changed."""
        self._fetches.wake(key)
        self._pulls.wake(key)

    def committed(self, key: Key) -> None:
        """More can be read."""
        self._fetches.wake(key)
        self._pulls.committed(key)

    def close(self) -> None:
        self._fetches.close()
        self._pulls.close()
