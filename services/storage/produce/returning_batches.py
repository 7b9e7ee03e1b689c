"""Batches that a leader refused for now, of producers that it does not know yet, and that those send again. No I/O.

A partition takes any sequence from a producer that it does not know, as Kafka does since KIP-360. So a later batch that
is on its way would be stored before the refused ones, which would then be out of order for ever (KAFKA-14920).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from libs.wire.record_batches.batch_layout import HEADER_SIZE, PRODUCER, PRODUCER_ID_AT
from libs.wire.record_batches.batches import MAX_SEQUENCE, BatchHeader
from services.storage.partition.partition import Key

PRODUCERS_MAX: Final = 10_000
"""Most producers of a node that are remembered. The partition where nothing was refused for longest forgets first."""
TIMEOUT_S: Final = 5.0
"""A producer that gave a batch up never sends it again. After so long a later one is taken. The gateway waits as long
(`services/gateway/core/returned_batches.py`)."""
FOR_EVER: Final = float("inf")


class Place(NamedTuple):
    """The first batch that is to come again."""

    epoch: int
    sequence: int
    expires_at: float


class ReturningBatches:
    """The producers of which a batch is to come again. Times are those of the event loop."""

    def __init__(self) -> None:
        self._places: dict[Key, dict[int, Place]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of producers, over all partitions."""
        return self._count

    def remember(self, partition: Key, producer_id: int, place: Place) -> None:
        """Notes a refused batch. An earlier one of the same epoch, or one of a newer epoch, stays the first."""
        producers = self._places.pop(partition, {})
        known = producers.pop(producer_id, None)
        if known is not None:
            if known.epoch > place.epoch or (known.epoch == place.epoch and _is_before(known.sequence, place.sequence)):
                place = known._replace(expires_at=max(known.expires_at, place.expires_at))
        else:
            self._count += 1
        producers[producer_id] = place
        self._places[partition] = producers
        if self._count > PRODUCERS_MAX:
            oldest = next(iter(self._places))
            self.forget(oldest, next(iter(self._places[oldest])))

    def remember_batch(self, partition: Key, batch: memoryview, now: float, *, knows: Callable[[int], bool]) -> None:
        """Notes a refused batch as it came, unless it has no sequence, or the partition knows its producer."""
        if len(batch) < HEADER_SIZE:
            return
        producer_id, epoch, sequence = PRODUCER.unpack_from(batch, PRODUCER_ID_AT)
        if producer_id >= 0 and sequence >= 0 and not knows(producer_id):
            self.remember(partition, producer_id, Place(epoch, sequence, now + TIMEOUT_S))

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

    def precede(self, partition: Key, header: BatchHeader, now: float) -> bool:
        """Whether batches before this one are to come again."""
        place = self._places.get(partition, {}).get(header.producer_id)
        if place is None or place.epoch != header.producer_epoch or place.expires_at < now:
            return False
        return _is_before(place.sequence, header.base_sequence)


def _is_before(sequence: int, other: int) -> bool:
    return 0 < ((other - sequence) & MAX_SEQUENCE) < MAX_SEQUENCE // 2
