"""The state machine of one shard's transactional ids."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, assert_never

from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.pending import RECORD_OVERHEAD
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.transaction_coordinator.core import adding, descriptions, ending, init_producer_id, record_codec
from services.transaction_coordinator.core.decisions import TIMEOUT, Decided, decided, refused
from services.transaction_coordinator.core.requests import (
    AddOffsets,
    AddPartitions,
    AddToSeveral,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    PartitionsReply,
    ProducerReply,
    Request,
    VerifyPartitions,
)
from services.transaction_coordinator.core.states import AT_REST, PREPARED, TRANSITIONS, Event
from services.transaction_coordinator.core.transaction import Client, Record, Transaction, TransactionChanged, TransactionRemoved
from services.transaction_coordinator.core.transaction_index import TransactionIndex

EXPIRY: Final = ("expiry",)
"""The timer of the check for unused transactional ids."""
LOOKED_AT_ONCE: Final = 5000
"""The transactional ids at which one decision looks. It takes 4 ms."""
EXPIRED_AT_ONCE: Final = 1000
"""The limit of transactional ids that one decision removes."""
EXPIRED_BYTES_MAX: Final = 200_000
"""The limit of bytes in their tombstones: clients choose how long ids are."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Broker configs of transactions, whose defaults are Kafka's, and what else of the cluster counts."""

    id_expiration_ms: int = 7 * 24 * 3_600_000
    """The value of transactional.id.expiration.ms."""
    expiry_check_ms: int = 3_600_000
    """The value of transaction.remove.expired.transaction.cleanup.interval.ms."""
    timeout_ms_max: int = 900_000
    """The value of transaction.max.timeout.ms."""
    group_shards: int = 0
    """The number of partitions of `__consumer_offsets`. 0: there is no such topic yet."""


class TransactionMachine:
    """A `decisions.Machine` for transactions. Settings are read at each decision."""

    def __init__(self, journal: Journal, settings: Callable[[], TransactionSettings]) -> None:
        self.transactions: Table[str, Transaction] = Table(journal)
        """By transactional id."""
        self.clients: Table[str, Client] = Table(journal)
        """By transactional id: who took it last, since this owner loaded the shard."""
        self.index = TransactionIndex(journal)
        self._settings = settings

    def decide(self, event: Request | Expired, now_ms: int) -> Decided:
        match event:
            case AddPartitions():
                return adding.decide_adding(self._current(event), event, now_ms)
            case AddOffsets(transactional_id, producer, group):
                shards = self._settings().group_shards
                if not shards:
                    return Decided(PartitionsReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                shard = GROUP_TOPIC, shard_of(group, shards)
                added = AddPartitions(transactional_id, producer, frozenset((shard,)), client_version=0)
                return adding.decide_adding(self._current(added), added, now_ms)
            case AddToSeveral():
                return adding.decide_several(self.transactions, event, now_ms)
            case EndTransaction():
                return ending.decide(self._current(event), event, now_ms)
            case MarkersWritten(prepared):
                return self._complete(prepared, now_ms)
            case VerifyPartitions():
                return adding.decide_verification(self._current(event), event)
            case InitProducerId():
                if not 0 < event.timeout_ms <= self._settings().timeout_ms_max:
                    return refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
                return init_producer_id.decide(self._current(event), event, now_ms)
            case DescribeTransactions():
                return descriptions.decide_description(self.transactions, event)
            case ListTransactions():
                return descriptions.decide_listing(self.transactions, event, now_ms)
            case Expired((kind, *_) as key):
                return self._time_out(str(key[1]), now_ms) if kind == TIMEOUT else self._expire(now_ms, _first_of(key))
            case _:
                assert_never(event)  # type: ignore[arg-type]

    def decide_smaller(self, event: Request | Expired, now_ms: int) -> Decided | None:
        """The removal of one transactional id instead of many. There is no smaller record of a transaction."""
        match event:
            case Expired((kind, *_) as key) if kind == EXPIRY[0]:
                return self._expire(now_ms, _first_of(key), bytes_max=1)
            case _:
                return None

    @property
    def prepared(self) -> Iterator[Transaction]:
        """The transactions that wait for markers. Who has just loaded the shard writes theirs."""
        return (transaction for transaction in self.under_way() if transaction.state in PREPARED)

    def under_way(self) -> Iterator[Transaction]:
        """The transactions under way. One that began in an earlier second comes first."""
        return (self.transactions[transactional_id] for transactional_id in self.index.under_way())

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        for transaction in self.under_way():
            if (deadline := transaction.deadline_ms) is not None:
                yield (TIMEOUT, transaction.transactional_id), deadline
        yield EXPIRY, now_ms + self._settings().expiry_check_ms

    def _current(self, request: AddPartitions | EndTransaction | VerifyPartitions | InitProducerId) -> Transaction | None:
        return self.transactions.get(request.transactional_id)

    def _complete(self, prepared: Transaction, now_ms: int) -> Decided:
        if self.transactions.get(prepared.transactional_id) != prepared:
            return Decision(ProducerReply(ErrorCode.INVALID_TXN_STATE))
        return decided(ending.completed(prepared, now_ms), ProducerReply(ErrorCode.NONE))

    def _time_out(self, transactional_id: str, now_ms: int) -> Decided:
        current = self.transactions.get(transactional_id)
        if current is None or (deadline := current.deadline_ms) is None:
            return Decision()
        if now_ms < deadline:
            return Decision(timers={(TIMEOUT, transactional_id): deadline})
        return decided(ending.fenced_and_aborted(current, now_ms), None)

    def _expire(self, now_ms: int, first: int = 0, bytes_max: int = EXPIRED_BYTES_MAX) -> Decided:
        """Looks at the ids from the place `first` on. An id that moves to an earlier place meanwhile waits for the next check."""
        settings = self._settings()
        unused: list[Record] = []
        size, looked_at, more = 0, 0, False
        for transactional_id, transaction in islice(self.transactions.items(), first, first + LOOKED_AT_ONCE):
            looked_at += 1
            if transaction.state not in AT_REST or transaction.updated_ms + settings.id_expiration_ms > now_ms:
                continue
            more = len(unused) >= EXPIRED_AT_ONCE or size >= bytes_max
            if more:
                break
            unused.append(TransactionRemoved(transactional_id))
            size += len(transactional_id.encode()) + RECORD_OVERHEAD
        following = first + looked_at - len(unused) - more
        if more or first + looked_at < len(self.transactions):
            return Decision(records=unused, timers={(*EXPIRY, following): now_ms + 1})
        return Decision(records=unused, timers={EXPIRY: now_ms + settings.expiry_check_ms})

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        match record:
            case TransactionChanged(transaction, client):
                self.index.change(self.transactions.get(transaction.transactional_id), transaction)
                self.transactions[transaction.transactional_id] = transaction
                if client is not None:
                    self.clients[transaction.transactional_id] = client
            case TransactionRemoved(transactional_id):
                self.clients.pop(transactional_id, None)
                removed = self.transactions.pop(transactional_id, None)
                self.index.change(removed, None)
                assert removed is None or (removed.state, Event.EXPIRED) in TRANSITIONS
            case _:
                assert_never(record)

    def encode(self, record: Record) -> KeyValue | None:
        return record_codec.encode(record)

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Record | None:
        if transaction is not None:
            raise ValueError(f"producer {transaction.producer_id} wrote into the log of transactions")
        return record_codec.decode(key, value)


def _first_of(key: TimerKey) -> int:
    """The place with which a check for unused ids goes on."""
    match key:
        case (_, int(first)):
            return first
        case _:
            return 0
