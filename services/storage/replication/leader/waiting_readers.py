"""The readers that wait for a partition to move: consumers' fetches, followers' pulls, and questions for the end of a log."""

from services.storage.fetch.fetches import Fetches
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from services.storage.partition.partition import Key, Partition
from services.storage.replication.leader.pulls import Pulls


class WaitingReaders:
    def __init__(self, fetches: Fetches, pulls: Pulls, ends: AcknowledgedEnds) -> None:
        self._fetches = fetches
        self._pulls = pulls
        self._ends = ends

    def committed(self, partition: Partition) -> None:
        """Wakes readers after a rise of the high watermark. Pulls hear of it later, with the next batches."""
        self._fetches.wake(partition.key)
        self._ends.wake(partition.key)

    def wake(self, key: Key) -> None:
        """Wakes readers after a change of the partition's leader, epoch or existence."""
        self._fetches.wake(key)
        self._pulls.wake(key)
        self._ends.wake(key)

    def close(self) -> None:
        self._fetches.close()
        self._pulls.close()
        self._ends.close()
