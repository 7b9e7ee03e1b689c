"""Gauges and views of a transaction coordinator, computed when somebody asks."""

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import chain, islice
from typing import Any, Final

from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.coordinator.process.findings import LOOKED_AT_MAX
from libs.coordinator.shards.shard_metrics import shards_by_state, unwritable_decisions
from libs.telemetry.definitions import Family, GaugeDefinition, MetricSet, Rows
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.core.states import AT_REST
from services.transaction_coordinator.core.transaction import Client, Transaction
from services.transaction_coordinator.core.transaction_machine import TransactionMachine
from services.transaction_coordinator.telemetry.transaction_meters import NAME

SHOWN_MAX: Final = 1_000
"""Most transactions that a view shows, the oldest first."""


def open_transactions(coordinator: TransactionCoordinator, now_ms: int) -> dict[str, Any]:
    """The transactions under way by transactional id, the oldest first, and those of one second in any order."""
    shards = [[(each, machine) for each in islice(machine.under_way(), SHOWN_MAX)] for machine in coordinator.machines()]
    oldest = nsmallest(SHOWN_MAX, chain.from_iterable(shards), key=lambda pair: pair[0].started_ms)
    return {each.transactional_id: view(each, client_of(machine, each), now_ms) for each, machine in oldest}


def client_of(machine: TransactionMachine, transaction: Transaction) -> Client | None:
    """The client that took the transactional id. None: it did so before this owner loaded the shard."""
    return machine.clients.get(transaction.transactional_id)


def view(transaction: Transaction, client: Client | None, now_ms: int) -> dict[str, Any]:
    return {
        "state": transaction.state.value,
        "client_id": client.client_id if client is not None else None,
        "client_host": client.host if client is not None else None,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.epoch,
        "age_ms": max(0, now_ms - transaction.started_ms) if transaction.state not in AT_REST else None,
        "timeout_ms": transaction.timeout_ms,
        "partitions": [f"{topic}-{index}" for topic, index in sorted(transaction.partitions)],
    }


class TransactionGauges(MetricSet):
    """The collector of a transaction coordinator: its gauges, and all that `Meters` collects. `now_ms`: wall time."""

    def __init__(self, coordinator: TransactionCoordinator, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._coordinator = coordinator
        self._now_ms = now_ms

    @GaugeDefinition(
        name=NAME + "ids",
        help="Transactional ids of the shards that this process serves, by the state of their transactions.",
        labels=("state",),
        healthy="`Empty`, `CompleteCommit` and `CompleteAbort`; `Ongoing` as many as producers are at work",
        otherwise="`PrepareCommit` or `PrepareAbort` that stay: a partition cannot store its marker. `/debug/transactions` "
        "names it.",
    )
    def ids(self) -> Rows:
        states: Counter[str] = Counter()
        for machine in self._coordinator.machines():
            states.update(machine.index.states)
        return [((state,), count) for state, count in sorted(states.items())]

    @GaugeDefinition(
        name=NAME + "oldest_seconds",
        help="Age of the oldest transaction under way in the shards that this process serves. 0: there is none.",
        healthy="below the longest `transaction.timeout.ms` of your producers",
        otherwise="Readers of committed records wait for that transaction. `/debug/transactions` names its client and producer.",
    )
    def oldest_s(self) -> float:
        now_ms = self._now_ms()
        under_way = (islice(machine.under_way(), LOOKED_AT_MAX) for machine in self._coordinator.machines())
        oldest_ms = min((each.started_ms for each in chain.from_iterable(under_way)), default=now_ms)
        return max(now_ms - oldest_ms, 0) / 1000

    @shards_by_state(NAME)
    def shards(self) -> Rows:
        return self._coordinator.shards.by_state()

    @unwritable_decisions(NAME, TRANSACTION_TOPIC)
    def unwritable(self) -> Rows:
        return sorted(self._coordinator.shards.unwritable.counts.items())

    def families(self) -> Iterator[Family | None]:
        yield from super().families()
        yield from self._coordinator.meters.families()
