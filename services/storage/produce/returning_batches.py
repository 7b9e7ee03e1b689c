"""Batches that a leader refused for now, of producers that it does not know yet, and that those send again. No I/O.

A partition takes any sequence from a producer that it does not know, as Kafka does since KIP-360. So a later batch that
is on its way would be stored before the refused ones, which would then be out of order for ever (KAFKA-14920).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from libs.wire.record_batches.batch_layout import is_before, producer_in
from libs.wire.record_batches.batches import BatchHeader
from services.storage.partition.partition import Key

PRODUCERS_MAX: Final = 10_000
"""Most producers of a node that are remembered. The one that was refused longest ago is forgotten first."""
TIMEOUT_S: Final = 4.0
"""A producer that gave a batch up never sends it again. After so long since the last refusal a later one is taken.

Less than in `services/gateway/core/returned_batches.py`: so long does the gateway tell clients of another refusal than
OUT_OF_ORDER_SEQUENCE_NUMBER, which ends some of them.
"""


class Place(NamedTuple):
    """The first batch that is to come again."""

    epoch: int
    sequence: int
    expires_at: float


class ReturningBatches:
    """The producers of which a batch is to come again; true if there are any. `time` is that of the event loop.

    Nobody need forget them: a partition that knows a producer by now does not ask, and all expire.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._places: dict[tuple[Key, int], Place] = {}
        """The one that expires next comes first."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def remember(self, partition: Key, producer_id: int, epoch: int, sequence: int) -> None:
        """Notes a refused batch. An earlier one of the same epoch stays the first, and so does any of a newer epoch."""
        self._expire()
        at = partition, producer_id
        known = self._places.get(at)
        if known is not None and known.epoch > epoch:
            return
        if known is not None and known.epoch == epoch and is_before(known.sequence, sequence):
            sequence = known.sequence
        self._places.pop(at, None)
        self._places[at] = Place(epoch, sequence, self._time() + TIMEOUT_S)
        if len(self._places) > PRODUCERS_MAX:
            del self._places[next(iter(self._places))]

    def remember_batch(self, partition: Key, batch: memoryview, *, knows: Callable[[int], bool]) -> None:
        """Notes a refused batch as it came, unless it has no sequence, or the partition knows its producer."""
        found = producer_in(batch)
        if found is None:
            return
        producer_id, epoch, sequence = found
        if sequence >= 0 and not knows(producer_id):
            self.remember(partition, producer_id, epoch, sequence)

    def forget(self, partition: Key, producer_id: int) -> None:
        self._places.pop((partition, producer_id), None)

    def precede(self, partition: Key, header: BatchHeader) -> bool:
        """Whether batches before this one are to come again."""
        self._expire()
        place = self._places.get((partition, header.producer_id))
        return place is not None and place.epoch == header.producer_epoch and is_before(place.sequence, header.base_sequence)

    def _expire(self) -> None:
        now = self._time()
        while self._places and self._places[first := next(iter(self._places))].expires_at < now:
            del self._places[first]
