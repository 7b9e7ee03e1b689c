"""AddPartitionsToTxn and AddOffsetsToTxn: the partitions that get a marker when the transaction ends.

Brokers verify for older clients that a partition was added (KIP-890, part 1), and add it for newer ones.
"""

from collections.abc import Mapping
from typing import Final

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.decisions import Decided, answered, decided, refusal
from services.transaction_coordinator.core.requests import (
    AddPartitions,
    AddToSeveral,
    PartitionsReply,
    SeveralReply,
    VerifyPartitions,
)
from services.transaction_coordinator.core.states import PREPARED, Event, State
from services.transaction_coordinator.core.transaction import Producer, Transaction, TransactionChanged

END_BYTES_MAX: Final = 64
"""Bytes that a transaction's record grows by at its end: epochs and producer ids. Partitions are only added if the end fits into
a batch, too. Otherwise nothing could end the transaction."""


def decide_adding(current: Transaction | None, request: AddPartitions, now_ms: int) -> Decided:
    error = _fault(current, request.producer)
    if error or current is None:
        return refusal(PartitionsReply(error))
    ongoing = current.state is State.ONGOING
    if ongoing and request.partitions <= current.partitions:
        return answered(PartitionsReply(ErrorCode.NONE))
    added = current.changed(
        Event.ADDED,
        now_ms,
        partitions=current.partitions | request.partitions if ongoing else request.partitions,
        started_ms=current.started_ms if ongoing else now_ms,
        client_version=request.client_version,
    )
    return decided(added, PartitionsReply(ErrorCode.NONE))._replace(room=END_BYTES_MAX)


def decide_verification(current: Transaction | None, request: VerifyPartitions) -> Decided:
    error = _fault(current, request.producer)
    if error or current is None:
        return refusal(PartitionsReply(error))
    known = current.partitions if current.state is State.ONGOING else frozenset()
    reply = PartitionsReply(
        ErrorCode.NONE,
        {
            partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        },
    )
    if request.leader_knows_owner and request.partitions <= known:
        return Decided(reply)
    return answered(reply)


def decide_several(known: Mapping[str, Transaction], request: AddToSeveral, now_ms: int) -> Decided:
    """One decision for all: each sees what those before it have changed."""
    changed: dict[str, Transaction] = {}
    results: list[PartitionsReply] = []
    timers: dict[TimerKey, int | None] = {}
    is_current = False
    for each in request.transactions:
        current = changed.get(each.transactional_id) or known.get(each.transactional_id)
        if isinstance(each, VerifyPartitions):
            decision = decide_verification(current, each)
        else:
            decision = decide_adding(current, each, now_ms)
        assert isinstance(decision.reply, PartitionsReply)
        results.append(decision.reply)
        timers.update(decision.timers)
        is_current |= decision.current
        for record in decision.records:
            assert isinstance(record, TransactionChanged)
            changed[each.transactional_id] = record.transaction
    records = [TransactionChanged(transaction) for transaction in changed.values()]
    return Decision(SeveralReply(tuple(results)), records, timers, current=is_current, room=END_BYTES_MAX if records else 0)


def _fault(current: Transaction | None, producer: Producer) -> ErrorCode:
    if current is not None and current.gives_way_to(producer):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current is None or current.producer.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not current.belongs_to(producer):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.state in PREPARED else ErrorCode.NONE
