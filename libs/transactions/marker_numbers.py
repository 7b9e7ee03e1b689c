"""The numbers of transaction markers, by which a leader knows one that comes late. No I/O.

A marker of `transaction.version` 0 or 1 has its producer's epoch. So one that is delayed on its way fits the producer's next
transaction, and would end it. Coordinators number their requests, and a leader refuses a number below one that it has seen.
"""

from typing import NamedTuple, TypeAlias

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

    def is_late(self, key: Key, shard: int, number: MarkerNumber) -> bool:
        """Whether a later marker of that shard has come before. Otherwise `number` is the highest from now on."""
        by_shard = self._newest.setdefault(key, {})
        newest = by_shard.get(shard)
        if newest is not None and number < newest:
            return True
        by_shard[shard] = number
        return False

    def forget(self, key: Key) -> None:
        """Forgets a partition that has left this node."""
        self._newest.pop(key, None)
