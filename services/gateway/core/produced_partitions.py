"""The partitions that a connection's producer writes to, whose former leader Metadata goes on naming there. No I/O.

An idempotent producer of librdkafka that hears of another leader waits for its requests to the former one. Without a connection
to the new leader's broker id it sleeps then, for up to a second, and no answer wakes it (ADR 32). The gateway sends its batches
to the true leader, whatever broker id they came to. So the producer need not hear of the new leader while it is busy.

It hears of the new leader as soon as that costs no pause: the producer is connected there, or has been quiet. It also does when
it was answered NOT_LEADER_OR_FOLLOWER. Every other connection hears the truth at once, and so does one that also fetches.
"""

from collections.abc import Iterable
from typing import Final

from libs.wire.record_batches.batch_layout import producer_in

Key = tuple[bytes, int]
"""(topic id, partition index)."""

QUIET_S: Final = 6.0
"""A producer without a batch for so long is quiet. It is longer than a batch may wait for its leader in the gateway."""
PARTITIONS_MAX: Final = 64
"""A producer of more partitions is connected to all brokers anyway."""
_PLAIN: Final = -1.0


class ProducerConnections:
    """The number of connections to each broker id that brought batches of a producer id, over all of this gateway's clients."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], int] = {}

    def has(self, broker_id: int, producer_id: int) -> bool:
        return (broker_id, producer_id) in self._counts

    def add(self, broker_id: int, producer_id: int) -> None:
        key = broker_id, producer_id
        self._counts[key] = self._counts.get(key, 0) + 1

    def remove(self, broker_id: int, producer_id: int) -> None:
        key = broker_id, producer_id
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left

    def __len__(self) -> int:
        return len(self._counts)


class ProducedPartitions:
    """One connection's partitions, with the time of the latest batch of each. Call `end` with the connection."""

    __slots__ = ("_broker_id", "_connections", "_fetches", "_latest", "_producer_id")

    def __init__(self, broker_id: int, connections: ProducerConnections) -> None:
        self._broker_id = broker_id
        self._connections = connections
        self._latest: dict[Key, float] = {}
        self._producer_id = -1
        self._fetches = False

    def note(self, key: Key, records: memoryview | bytes, now: float) -> None:
        """Notes a batch that arrived at `now`. Every batch passes here, so a known partition costs two dict operations."""
        latest = self._latest.get(key)
        if latest is None:
            self._add(key, records, now)
        elif latest >= 0.0:
            self._latest[key] = now

    def keeps(self, key: Key, leader: int, now: float) -> bool:
        """Whether Metadata on this connection names its own broker id as the leader, though `leader` is. -1: nobody leads now."""
        latest = self._latest.get(key, _PLAIN)
        if latest < 0.0 or now - latest >= QUIET_S or self._fetches or leader == self._broker_id:
            return False
        return not self._connections.has(leader, self._producer_id)

    def partitions(self) -> Iterable[Key]:
        return self._latest

    def is_busy(self, now: float) -> bool:
        """Whether the producer wrote to any partition of late."""
        return bool(self._latest) and now - max(self._latest.values()) < QUIET_S and not self._fetches

    def fetches(self) -> None:
        """Notes a Fetch. Whoever reads over this connection too must hear of the true leader."""
        self._fetches = True

    def refused(self) -> None:
        """Notes that a batch was answered with NOT_LEADER_OR_FOLLOWER: the client asks who leads."""
        self._latest.clear()

    def end(self) -> None:
        self._latest.clear()
        self._belongs_to(-1)

    def _add(self, key: Key, records: memoryview | bytes, now: float) -> None:
        if self._broker_id < 0:
            return
        if len(self._latest) >= PARTITIONS_MAX:
            self._latest.clear()
        producer = producer_in(records)
        self._latest[key] = now if producer is not None else _PLAIN
        if producer is not None and producer[0] != self._producer_id:
            self._belongs_to(producer[0])

    def _belongs_to(self, producer_id: int) -> None:
        if self._producer_id >= 0:
            self._connections.remove(self._broker_id, self._producer_id)
        self._producer_id = producer_id
        if producer_id >= 0:
            self._connections.add(self._broker_id, producer_id)
