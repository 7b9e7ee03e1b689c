"""Batches of transactions that a leader refused for now, and that their producers send again. No I/O.

A partition that does not know a producer takes any sequence from it. So a later batch that is on its way would be stored before
the refused ones, which would then be out of order for ever (KAFKA-14920).
"""

from typing import Final, NamedTuple

from libs.wire.record_batches.batches import MAX_SEQUENCE, BatchHeader
from services.storage.partition.partition import Key

PRODUCERS_MAX: Final = 10_000
"""Most producers of a node that are remembered. The partition where nothing was refused for longest forgets first."""


class Place(NamedTuple):
    """The first batch that is to come again."""

    epoch: int
    sequence: int


class ReturningBatches:
    def __init__(self) -> None:
        self._places: dict[Key, dict[int, Place]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of producers, over all partitions."""
        return self._count

    def remember(self, partition: Key, first: BatchHeader) -> None:
        """Notes the first of a producer's refused batches. One of a former epoch does not replace that of a newer one."""
        producers = self._places.pop(partition, {})
        known = producers.pop(first.producer_id, None)
        place = Place(first.producer_epoch, first.base_sequence)
        producers[first.producer_id] = known if known is not None and known.epoch > place.epoch else place
        self._places[partition] = producers
        if known is None:
            self._count += 1
        if self._count > PRODUCERS_MAX:
            oldest = next(iter(self._places))
            self.forget(oldest, next(iter(self._places[oldest])))

    def forget(self, partition: Key, producer_id: int) -> None:
        producers = self._places.get(partition)
        if producers is not None and producers.pop(producer_id, None) is not None:
            self._count -= 1
            if not producers:
                del self._places[partition]

    def forget_partition(self, partition: Key) -> None:
        self._count -= len(self._places.pop(partition, ()))

    def clear(self) -> None:
        self._places.clear()
        self._count = 0

    def precede(self, partition: Key, header: BatchHeader) -> bool:
        """Whether batches before this one are to come again."""
        place = self._places.get(partition, {}).get(header.producer_id)
        if place is None or place.epoch != header.producer_epoch:
            return False
        return 0 < ((header.base_sequence - place.sequence) & MAX_SEQUENCE) < MAX_SEQUENCE // 2
