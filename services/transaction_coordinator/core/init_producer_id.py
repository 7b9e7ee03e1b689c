"""InitProducerId: a producer takes its transactional id, and whoever had it is fenced (KIP-98, KIP-360).

A transaction that is under way is aborted first. Its markers carry an epoch that no producer gets, so the former producer can
write nothing behind them. The caller gets CONCURRENT_TRANSACTIONS until they are written, and asks again.

Safer than Kafka: a zombie that asks with an old epoch gets PRODUCER_FENCED at once. Kafka aborts the new producer's transaction
first.
"""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.decisions import Decided, decided, refused
from services.transaction_coordinator.core.ending import fenced_and_aborted
from services.transaction_coordinator.core.requests import PRODUCER_ID_NEEDED, InitProducerId, ProducerReply
from services.transaction_coordinator.core.states import PREPARED, Event, State
from services.transaction_coordinator.core.transaction import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Producer,
    Transaction,
)


def decide(current: Transaction | None, request: InitProducerId, now_ms: int) -> Decided:
    if current is None:
        return _create(request, now_ms)
    expected = request.expected
    if expected is not None and current.gives_way_to(expected):
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_belong_to(expected, current):
        return refused(ErrorCode.PRODUCER_FENCED)
    if current.state in PREPARED:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is State.ONGOING:
        if expected is not None and expected != current.producer:
            return refused(ErrorCode.PRODUCER_FENCED)
        return decided(fenced_and_aborted(current, now_ms), ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
    if current.is_exhausted and (expected is None or expected.epoch == current.producer.epoch):
        return _take_producer_id(current, request, now_ms)
    if expected is None:
        return _with_epoch(current, request, now_ms, current.producer.epoch + 1, NO_EPOCH)
    if expected.epoch == current.producer.epoch:
        return _with_epoch(current, request, now_ms, current.producer.epoch + 1, current.producer.epoch)
    if expected.epoch == current.last_epoch:  # a retry, whose first answer was lost
        return _with_epoch(current, request, now_ms, current.producer.epoch, current.last_epoch)
    return refused(ErrorCode.PRODUCER_FENCED)


def _may_belong_to(expected: Producer, current: Transaction) -> bool:
    if expected.producer_id == current.producer.producer_id:
        return True
    return expected.producer_id == current.previous_producer_id and expected.epoch >= EXHAUSTED_EPOCH


def _create(request: InitProducerId, now_ms: int) -> Decided:
    if request.fresh_producer_id == NO_PRODUCER_ID:
        return Decided(PRODUCER_ID_NEEDED)
    producer = Producer(request.fresh_producer_id, 0)
    created = Transaction(request.transactional_id, producer, timeout_ms=request.timeout_ms, updated_ms=now_ms)
    return decided(created, ProducerReply(ErrorCode.NONE, producer), request.client)


def _take_producer_id(current: Transaction, request: InitProducerId, now_ms: int) -> Decided:
    if request.fresh_producer_id == NO_PRODUCER_ID:
        return Decided(PRODUCER_ID_NEEDED)
    last_epoch = current.producer.epoch if request.expected is not None else NO_EPOCH
    renamed = replace(current, previous_producer_id=current.producer.producer_id)
    return _initialized(renamed, request, now_ms, Producer(request.fresh_producer_id, 0), last_epoch)


def _with_epoch(current: Transaction, request: InitProducerId, now_ms: int, epoch: int, last_epoch: int) -> Decided:
    return _initialized(current, request, now_ms, Producer(current.producer.producer_id, epoch), last_epoch)


def _initialized(current: Transaction, request: InitProducerId, now_ms: int, producer: Producer, last_epoch: int) -> Decided:
    changed = current.changed(
        Event.INITIALIZED,
        now_ms,
        producer=producer,
        last_epoch=last_epoch,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        started_ms=NO_TIME,
    )
    return decided(changed, ProducerReply(ErrorCode.NONE, producer), request.client)
