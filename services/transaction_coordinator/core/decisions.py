"""Decisions about one transactional id: a change with its reply and its effects, or a refusal that changes nothing."""

from typing import TypeAlias

from libs.coordinator.decisions import Decision
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.requests import ProducerReply, Reply, WriteMarkers
from services.transaction_coordinator.core.states import PREPARED
from services.transaction_coordinator.core.transaction import Record, Transaction, TransactionChanged

Decided: TypeAlias = Decision[Reply, Record]

TIMEOUT = "timeout"
"""Begins the key of a transaction's timer."""


def decided(changed: Transaction, reply: Reply | None) -> Decided:
    """Order of effects: the record is committed, then the reply goes out, and markers are written."""
    records = (TransactionChanged(changed),)
    effects = (WriteMarkers(changed),) if changed.state in PREPARED else ()
    return Decision(reply, records, {(TIMEOUT, changed.transactional_id): changed.deadline_ms}, events=effects)


def refused(error: ErrorCode) -> Decided:
    return Decision(ProducerReply(error))
