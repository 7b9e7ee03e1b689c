"""The readers that wait for a partition to move: consumers' fetches and followers' pulls."""

from services.storage.fetch.fetches import Fetches
from services.storage.partition.partition import Key
from services.storage.replication.leader.pulls import Pulls


class WaitingReaders:
    def __init__(self, fetches: Fetches, pulls: Pulls) -> None:
        self._fetches = fetches
        self._pulls = pulls

    def wake(self, key: Key) -> None:
        """Wakes readers after a change of the partition's leader, epoch or existence."""
        self._fetches.wake(key)
        self._pulls.wake(key)

    def close(self) -> None:
        self._fetches.close()
        self._pulls.close()
