"""The end of a transaction: EndTxn by its producer, an abort by the coordinator, and the completion once markers are written.

From `transaction.version` 2 on (KIP-890, part 2) each end raises the epoch, and the client gets the new one. So a batch or a
marker that comes late belongs to an old epoch. A client may then abort a transaction without partitions, since it does not know
whether a lost Produce added one. A retry is known by its epoch, which is the one before.
"""

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.decisions import Decided, answered, decided, refused
from services.transaction_coordinator.core.requests import PRODUCER_ID_NEEDED, EndTransaction, ProducerReply
from services.transaction_coordinator.core.states import PREPARED, Event, State
from services.transaction_coordinator.core.transaction import (
    EPOCH_MAX,
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTION_VERSION_2,
    Producer,
    Transaction,
)


def decide(current: Transaction | None, request: EndTransaction, now_ms: int) -> Decided:
    if current is None:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.gives_way_to(request.producer):
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    retried = request.raises_epoch and _is_retry(current, request.producer)
    if retried and current.state in (State.EMPTY, State.ONGOING):  # a later transaction than the one that it ended
        return refused(ErrorCode.PRODUCER_FENCED)
    if not retried and request.producer.producer_id != current.producer.producer_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not retried and not current.belongs_to(request.producer):
        return refused(ErrorCode.PRODUCER_FENCED)
    if current.state is State.ONGOING:
        return _end(current, request, now_ms)
    if current.state in PREPARED:
        if request.raises_epoch and not retried:  # the end of the next transaction
            return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        same = request.commit == (current.state is State.PREPARE_COMMIT)
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS if same else ErrorCode.INVALID_TXN_STATE)
    if request.raises_epoch and not retried:
        return refused(ErrorCode.INVALID_TXN_STATE) if request.commit else _end(current, request, now_ms)
    return _repeated(current, request)


def fenced_and_aborted(current: Transaction, now_ms: int) -> Transaction:
    """An ongoing transaction that the coordinator aborts. Its markers fence the producer, with an epoch that nobody gets.

    A log of Kafka's may have a transaction with the largest epoch (KAFKA-20090). Its markers keep that epoch: none is above it.
    The coordinator refuses that producer from then on, and leaders ask the coordinator.
    """
    if current.producer.epoch >= EPOCH_MAX:
        # Leaders take a marker of the transaction's own epoch from clients before `transaction.version` 2 only.
        return current.changed(Event.ABORTED, now_ms, last_epoch=NO_EPOCH, client_version=0)
    fence = Producer(current.producer.producer_id, current.producer.epoch + 1)
    return current.changed(Event.ABORTED, now_ms, producer=fence, last_epoch=NO_EPOCH)


def completed(prepared: Transaction, now_ms: int) -> Transaction:
    """A prepared transaction whose markers are all written."""
    producer, previous = prepared.producer, prepared.previous_producer_id
    if prepared.next_producer_id != NO_PRODUCER_ID:
        producer, previous = Producer(prepared.next_producer_id, 0), producer.producer_id
    return prepared.changed(
        Event.MARKED,
        now_ms,
        producer=producer,
        previous_producer_id=previous,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def _is_retry(current: Transaction, producer: Producer) -> bool:
    """Whether an EndTxn has raised this epoch before, or replaced this producer id since its epochs were exhausted.

    An older client has ended its transaction with the epoch that InitProducerId gave it. The epoch before is then a zombie's, and
    a repeated reply would give the zombie its successor's epoch.
    """
    if current.client_version < TRANSACTION_VERSION_2:
        return False
    if producer.producer_id == current.producer.producer_id:
        # KAFKA-20090: no producer may get the largest epoch. It could not be fenced any more.
        is_fence = current.producer.epoch == EPOCH_MAX and current.next_producer_id == NO_PRODUCER_ID
        return producer.epoch + 1 == current.producer.epoch and not is_fence
    replaced = producer.producer_id == current.previous_producer_id and current.producer.epoch == 0
    return replaced and producer.epoch == EXHAUSTED_EPOCH


def _end(current: Transaction, request: EndTransaction, now_ms: int) -> Decided:
    event = _event(current, request)
    if not request.raises_epoch:
        # A client that had its leader add partitions may still end the transaction in the old way.
        ended = current.changed(event, now_ms, client_version=request.client_version)
        return decided(ended, ProducerReply(ErrorCode.NONE, current.producer))
    if current.is_exhausted and request.fresh_producer_id == NO_PRODUCER_ID:
        return Decided(PRODUCER_ID_NEEDED)
    next_producer_id = request.fresh_producer_id if current.is_exhausted else NO_PRODUCER_ID
    prepared = current.changed(
        event,
        now_ms,
        producer=Producer(current.producer.producer_id, current.producer.epoch + 1),
        last_epoch=current.producer.epoch,
        next_producer_id=next_producer_id,
        started_ms=now_ms if event is Event.ABORTED_EMPTY else current.started_ms,
        client_version=request.client_version,
    )
    next_producer = prepared.producer if next_producer_id == NO_PRODUCER_ID else Producer(next_producer_id, 0)
    return decided(prepared, ProducerReply(ErrorCode.NONE, next_producer))


def _event(current: Transaction, request: EndTransaction) -> Event:
    if request.commit:
        return Event.COMMITTED
    return Event.ABORTED if current.state is State.ONGOING else Event.ABORTED_EMPTY


def _repeated(current: Transaction, request: EndTransaction) -> Decided:
    """The reply to an EndTxn in a state without a transaction: the one before, if it had the same outcome."""
    ended = State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT
    if current.state is ended:
        return answered(ProducerReply(ErrorCode.NONE, current.producer))
    return refused(ErrorCode.INVALID_TXN_STATE)
