"""Decisions about one transactional id: a change with its reply and its effects, or a refusal that changes nothing."""

from typing import TypeAlias

from libs.coordinator.core.decisions import Decision
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.requests import PartitionsReply, ProducerReply, Reply, WriteMarkers
from services.transaction_coordinator.core.states import PREPARED
from services.transaction_coordinator.core.transaction import Client, Record, Transaction, TransactionChanged

Decided: TypeAlias = Decision[Reply, Record]

TIMEOUT = "timeout"
"""Begins the key of a transaction's timer."""


def decided(changed: Transaction, reply: Reply | None, client: Client | None = None) -> Decided:
    """Order of effects: the record is committed, then the reply goes out, and markers are written."""
    records = (TransactionChanged(changed, client),)
    effects = (WriteMarkers(changed),) if changed.state in PREPARED else ()
    return Decision(reply, records, {(TIMEOUT, changed.transactional_id): changed.deadline_ms}, events=effects)


def answered(reply: Reply) -> Decided:
    """A reply without a change. A former owner must not give it. It would confirm an EndTxn that nobody carries out, or end a
    producer whose newer epoch it does not know. So the leader of the shard is asked first."""
    return Decision(reply, current=True)


def refused(error: ErrorCode) -> Decided:
    return refusal(ProducerReply(error))


def refusal(reply: ProducerReply | PartitionsReply) -> Decided:
    if reply.error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return Decision(reply)  # the client asks again, whoever says so
    return answered(reply)
