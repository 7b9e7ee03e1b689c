"""Metrics of a transaction coordinator. It counts plain integers; samples are made when somebody scrapes.

Transactions are counted when they are committed to the log. Transactional ids are never labels: clients choose them, and there is
no end of them.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from libs.telemetry.definitions import CounterDefinition, MetricSet
from libs.wire.apis import Api
from libs.wire.errors import ErrorCode, error_name
from services.transaction_coordinator.core.requests import PartitionsReply, ProducerReply, SeveralReply
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Transaction

NAME: Final = "penstock_transactions_"
OUTCOMES: Final = {State.PREPARE_COMMIT: "commit", State.PREPARE_ABORT: "abort"}


class TransactionMeters(MetricSet):
    """The counters of the process."""

    requests: Counter[tuple[str, int]] = CounterDefinition(
        name=NAME + "requests",
        help="Answers to gateways, by API and error. After COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR the gateway asks "
        "again.",
        labels=("api", "error"),
        healthy="NONE; CONCURRENT_TRANSACTIONS while a producer begins its next transaction at once; "
        "COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR for seconds after a coordinator starts or stops",
        otherwise="PRODUCER_FENCED and INVALID_PRODUCER_EPOCH: two producers share a transactional id, or a transaction took "
        "longer than its timeout. COORDINATOR_NOT_AVAILABLE: the shard's partition has no leader, or too small an ISR.",
    ).kept(Counter, lambda key: (key[0], error_name(key[1])))
    """Number of requests by API and error."""
    decided: Counter[str] = CounterDefinition(
        name=NAME + "decided",
        help="Transactions whose outcome is in the log, by outcome.",
        labels=("outcome",),
        healthy="follows the load; aborts are rare",
        otherwise="Many aborts: producers fail, or their transactions take longer than their timeout.",
    ).kept(lambda: Counter(dict.fromkeys(OUTCOMES.values(), 0)))
    completed: Counter[str] = CounterDefinition(
        name=NAME + "completed",
        help="Transactions whose markers are all written, by outcome.",
        labels=("outcome",),
        healthy="follows `penstock_transactions_decided_total` within a second",
        otherwise="It stays behind: a partition has no leader, or too small an ISR, so its marker cannot be written. "
        "`/debug/transactions` has those that wait.",
    ).kept(lambda: Counter(dict.fromkeys(OUTCOMES.values(), 0)))

    def answered(self, api: Api, error: int, reply: object) -> int:
        """Counts an answer. Returns its error, or the first one in the reply."""
        if not error and isinstance(reply, ProducerReply | PartitionsReply):
            error = reply.error_code
        elif not error and isinstance(reply, SeveralReply):
            error = next((result.error_code for result in reply.results if result.error_code), ErrorCode.NONE)
        self.requests[api.key.name.lower(), error] += 1
        return int(error)

    def prepared(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            self.decided[OUTCOMES[transaction.state]] += 1

    def markers_written(self, prepared: Transaction) -> None:
        self.completed[OUTCOMES[prepared.state]] += 1
