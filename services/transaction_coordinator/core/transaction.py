"""A transactional id and the transaction that it has, if any: the value of the coordinator's table.

It is never changed in place. `TransactionChanged` puts a new one in its stead.
"""

from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from libs.lean_dataclass import dataclass
from services.transaction_coordinator.core.states import TRANSITIONS, Event, State

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
CLIENT_ID_LENGTH_MAX: Final = 128
EPOCH_MAX: Final = 0x7FFF
"""The largest epoch that a marker may carry."""
EXHAUSTED_EPOCH: Final = EPOCH_MAX - 1
"""The largest epoch that a producer may have. One is left for fencing it."""

TRANSACTION_VERSION_2: Final = 2
"""`transaction.version` 2 (KIP-890, part 2): each transaction ends with a new epoch."""

TopicPartition: TypeAlias = tuple[str, int]
"""Topic name and partition index, as the log has them."""


class Producer(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_EPOCH)


class Client(NamedTuple):
    """The client that last took a transactional id, for operators."""

    client_id: str
    host: str
    """As Kafka writes an address: "/127.0.0.1"."""

    @classmethod
    def shortened(cls, client_id: str, host: str) -> "Client":
        """Clients choose how long their ids are. One entry for each transactional id stays in memory."""
        return cls(client_id[:CLIENT_ID_LENGTH_MAX], host)


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer: Producer
    """The newest producer id and epoch. While markers are written it may be an epoch that no client has heard of."""
    last_epoch: int = NO_EPOCH
    """The epoch before the newest one. A retry comes with it."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the newest one, whose epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id from the end of the prepared transaction on, if its epochs are exhausted."""
    state: State = State.EMPTY
    timeout_ms: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions that get markers."""
    started_ms: int = NO_TIME
    """Wall time of the first partition."""
    updated_ms: int = NO_TIME
    """Wall time of the newest record."""
    client_version: int = 0
    """The `transaction.version` by which the client runs its newest transaction."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.producer.epoch >= EXHAUSTED_EPOCH

    def belongs_to(self, producer: Producer) -> bool:
        """Whether the client is its newest producer. The largest epoch belongs to none: it is only written to fence others."""
        return producer == self.producer and producer.epoch < EPOCH_MAX

    def gives_way_to(self, producer: Producer) -> bool:
        """Whether the client knows this producer already, and it takes over once the markers of the prepared transaction are
        written."""
        return self.next_producer_id != NO_PRODUCER_ID and producer == Producer(self.next_producer_id, 0)

    @property
    def deadline_ms(self) -> int | None:
        """Wall time at which it takes too long. None: it is not ongoing."""
        return self.started_ms + self.timeout_ms if self.state is State.ONGOING else None

    def changed(self, event: Event, now_ms: int, **fields: Any) -> "Transaction":
        """The transaction after `event`. It asserts that the table has such a transition."""
        return replace(self, state=TRANSITIONS[self.state, event], updated_ms=now_ms, **fields)


@dataclass(frozen=True, slots=True)
class TransactionChanged:
    """TransactionLogValue: everything about a transactional id, from now on."""

    transaction: Transaction
    client: Client | None = None
    """The client of an InitProducerId. The log does not keep it. None: the same as before."""


@dataclass(frozen=True, slots=True)
class TransactionRemoved:
    """The tombstone of a transactional id."""

    transactional_id: str


Record: TypeAlias = TransactionChanged | TransactionRemoved
