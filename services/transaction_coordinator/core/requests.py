"""What the coordinator decides about: requests and facts, each about one transactional id, and its replies."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.transaction import (
    NO_PRODUCER,
    NO_PRODUCER_ID,
    TRANSACTION_VERSION_2,
    Client,
    Producer,
    TopicPartition,
    Transaction,
)


class InitProducerId(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: Producer | None
    """The producer id and epoch that the client has (KIP-360). None: it starts anew."""
    fresh_producer_id: int = NO_PRODUCER_ID
    """An unused producer id. Without one the reply may be PRODUCER_ID_NEEDED."""
    client: Client | None = None


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, and what AddOffsetsToTxn comes to."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int
    """The client's `transaction.version`."""


class AddOffsets(NamedTuple):
    """AddOffsetsToTxn: the shard of a group in `__consumer_offsets` is added."""

    transactional_id: str
    producer: Producer
    group: str


class VerifyPartitions(NamedTuple):
    """AddPartitionsToTxn with `verify_only`: do these belong to the transaction? (KIP-890, part 1)"""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    leader_knows_owner: bool = False
    """Whether the partition's last marker of this producer came from this owner or a former one. A newer owner has ended no
    transaction there, so whatever this one finds open is open."""


class AddToSeveral(NamedTuple):
    """AddPartitionsToTxn from version 4 on: several transactions of a shard, each decided on top of those before it."""

    transactions: tuple[AddPartitions | VerifyPartitions, ...]


class EndTransaction(NamedTuple):
    transactional_id: str
    producer: Producer
    commit: bool
    client_version: int
    """The client's `transaction.version`. From 2 on the end raises the epoch, and the reply has the new one."""
    fresh_producer_id: int = NO_PRODUCER_ID
    """As in InitProducerId."""

    @property
    def raises_epoch(self) -> bool:
        return self.client_version >= TRANSACTION_VERSION_2


class MarkersWritten(NamedTuple):
    """The fact that each partition of a prepared transaction has its marker, or is gone."""

    prepared: Transaction
    """The transaction as it was prepared. Any other is not completed by this."""


class ListTransactions(NamedTuple):
    """The transactional ids of a shard. Empty filters let all pass."""

    states: frozenset[str] = frozenset()
    """Kafka's names of states."""
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    """Only transactions that began so long ago. Negative: all."""
    pattern: str = ""
    """A regular expression (RE2) for whole transactional ids. Empty: all of them."""
    ids: Sequence[str] | None = None
    """The transactional ids to look at. None: all of the shard."""


class DescribeTransactions(NamedTuple):
    transactional_ids: tuple[str, ...]


Request: TypeAlias = (
    InitProducerId
    | AddPartitions
    | AddOffsets
    | VerifyPartitions
    | AddToSeveral
    | EndTransaction
    | MarkersWritten
    | ListTransactions
    | DescribeTransactions
)


class ProducerReply(NamedTuple):
    error_code: ErrorCode
    producer: Producer = NO_PRODUCER


class PartitionsReply(NamedTuple):
    error_code: ErrorCode
    """An error of the whole transaction."""
    partitions: Mapping[TopicPartition, ErrorCode] = {}
    """The result of each partition, if the transaction has no error and partitions differ."""


class SeveralReply(NamedTuple):
    results: tuple[PartitionsReply, ...]
    """In the order of the request."""


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """The reply to a request that needs a `fresh_producer_id`. Nothing has changed. The caller asks again with one."""


PRODUCER_ID_NEEDED = ProducerIdNeeded()


class ListingReply(NamedTuple):
    transactions: tuple[Transaction, ...]
    error_code: ErrorCode = ErrorCode.NONE
    """INVALID_REGULAR_EXPRESSION."""


class DescriptionReply(NamedTuple):
    results: tuple[tuple[ErrorCode, Transaction | None], ...]
    """In the order of the request."""


Reply: TypeAlias = ProducerReply | PartitionsReply | SeveralReply | ProducerIdNeeded | ListingReply | DescriptionReply


class WriteMarkers(NamedTuple):
    """The effect of a prepared transaction, once its record is committed: markers go to each of its partitions.

    The markers carry the producer's id and epoch. A shard that was loaded has these effects too: `prepared` of its machine.
    """

    prepared: Transaction
