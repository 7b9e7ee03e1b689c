"""The numbers of transaction markers, by which a leader knows one that comes late. No I/O.

A marker of `transaction.version` 0 or 1 has its producer's epoch. So one that is delayed on its way fits the producer's next
transaction, and would end it. Coordinators number their requests, and a leader refuses a number below one that it has seen.
"""

from typing import NamedTuple, TypeAlias

from libs.rpc.contracts.transactions import Marker

Key: TypeAlias = tuple[bytes, int]
"""Topic id and partition index."""


class MarkerNumber(NamedTuple):
    """It counts in one leader epoch, since a marker names the leader epoch for which it was sent."""

    leader_epoch: int
    coordinator_epoch: int
    number: int


class MarkerNumbers:
    """The highest number of each shard, in each partition that this node leads or led."""

    def __init__(self) -> None:
        self._newest: dict[Key, dict[int, MarkerNumber]] = {}

    def __len__(self) -> int:
        """The number of partitions."""
        return len(self._newest)

    def is_late(self, marker: Marker, request_number: int) -> bool:
        """Whether a later marker of its shard has come before. Otherwise its number is the highest from now on. An operator's
        marker has none, and is never late."""
        if marker.shard < 0:
            return False
        number = MarkerNumber(marker.leader_epoch, marker.coordinator_epoch, request_number)
        by_shard = self._newest.setdefault((marker.topic_id, marker.partition), {})
        newest = by_shard.get(marker.shard)
        if newest is not None and number < newest:
            return True
        by_shard[marker.shard] = number
        return False

    def forget(self, key: Key) -> None:
        """Forgets a partition that has left this node."""
        self._newest.pop(key, None)
