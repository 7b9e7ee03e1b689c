"""The DEBUG and TRACE lines about transactions: each transition with its cause, once it is committed, and each refusal."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from libs.coordinator.core.decisions import Decision, Expired
from libs.telemetry.level_switches import TRACE, Switches
from libs.telemetry.logs import fields
from libs.wire.errors import error_name
from services.transaction_coordinator.core.requests import (
    AddPartitions,
    AddToSeveral,
    EndTransaction,
    MarkersWritten,
    PartitionsReply,
    ProducerReply,
    Reply,
    Request,
    SeveralReply,
)
from services.transaction_coordinator.core.transaction import Record, Transaction, TransactionChanged
from services.transaction_coordinator.core.transaction_machine import TransactionMachine

log = logging.getLogger("transactions")

LOGGED: Final = Switches(log)
_CAUSES: Final = {"VerifyPartitions": "AddPartitionsToTxn, verify only", "AddOffsets": "AddOffsetsToTxn"}


class TransactionLog:
    """What writes the lines of one shard's machine."""

    switches = LOGGED

    def __init__(self, machine: TransactionMachine) -> None:
        self._transactions = machine.transactions

    def line(self, event: Request | Expired, decision: Decision[Reply, Record]) -> Callable[[], None] | None:
        """Call it before the decision is replayed: it compares with the state before. The result writes its lines. None: it has
        none."""
        lines = [*self._changes(event, decision.records), *_refusals(event, decision.reply)]
        if not lines:
            return None

        def write() -> None:
            for write_line in lines:
                write_line()

        return write

    def _changes(self, event: Request | Expired, records: Any) -> Iterator[Callable[[], None]]:
        for record in records:
            if isinstance(record, TransactionChanged):
                after = record.transaction
                before = self._transactions.get(after.transactional_id)
                yield partial(_write_change, before, after, _cause(event))
            else:
                event_name = "transactional id expired"
                yield partial(log.debug, event_name, extra=fields(transactional_id=record.transactional_id))


def _write_change(before: Transaction | None, after: Transaction, why: str) -> None:
    moves = before is None or before.state is not after.state
    details = fields(
        transactional_id=after.transactional_id,
        was=before.state.value if before is not None else None,
        state=after.state.value,
        why=why,
        producer_id=after.producer.producer_id,
        producer_epoch=after.producer.epoch,
        partitions=len(after.partitions),
        open_ms=after.updated_ms - after.started_ms if after.started_ms >= 0 else None,
    )
    if moves:
        log.debug("transaction moves", extra=details)
    else:
        log.log(TRACE, "transaction changes", extra=details)


def _refusals(event: Request | Expired, reply: Reply | None) -> Iterator[Callable[[], None]]:
    match event, reply:
        case AddToSeveral(transactions), SeveralReply(results):
            pairs = [(each.transactional_id, result.error_code) for each, result in zip(transactions, results, strict=True)]
        case _, ProducerReply(error_code=error) | PartitionsReply(error_code=error):
            pairs = [(getattr(event, "transactional_id", ""), error)]
        case _:
            pairs = []
    for transactional_id, error in pairs:
        if error:
            details = fields(transactional_id=transactional_id, request=_cause(event), error=error_name(error))
            yield partial(log.debug, "transaction request refused", extra=details)


def _cause(event: Request | Expired) -> str:
    match event:
        case EndTransaction(commit=commit):
            return "EndTxn, commit" if commit else "EndTxn, abort"
        case MarkersWritten():
            return "each partition has its marker"
        case Expired():
            return "its time is over"
        case AddPartitions() | AddToSeveral():
            return "AddPartitionsToTxn"
        case _:
            name = type(event).__name__
            return _CAUSES.get(name, name)
