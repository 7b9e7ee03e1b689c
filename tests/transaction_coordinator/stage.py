"""A transaction coordinator of one shard on a log in memory, and producers that call it."""

from collections import Counter
from itertools import count
from typing import Any

from libs.coordinator.core.tables import Journal
from services.transaction_coordinator.core.requests import (
    PRODUCER_ID_NEEDED,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    PartitionsReply,
    ProducerReply,
    VerifyPartitions,
)
from services.transaction_coordinator.core.states import AT_REST
from services.transaction_coordinator.core.transaction import Producer, TopicPartition, Transaction
from services.transaction_coordinator.core.transaction_index import SECOND_MS
from services.transaction_coordinator.core.transaction_machine import TransactionMachine, TransactionSettings
from tests.coordinator.one_shard import CoordinatorRequest, OneShard

FIRST_PRODUCER_ID = 1000


class TransactionStage(OneShard):
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self._producer_ids = count(FIRST_PRODUCER_ID)
        super().__init__()

    def make(self, journal: Journal) -> TransactionMachine:
        return TransactionMachine(journal, lambda: self.settings)

    @property
    def transactions(self) -> dict[str, Transaction]:
        machine = self.shard.machine
        assert isinstance(machine, TransactionMachine)
        return machine.transactions

    def check_index(self) -> None:
        """Asserts that the index says what a walk over all transactions says."""
        machine = self.shard.machine
        assert isinstance(machine, TransactionMachine)
        transactions = list(machine.transactions.values())
        assert dict(machine.index.states) == Counter(each.state.value for each in transactions)
        under_way = list(machine.under_way())
        assert sorted(each.transactional_id for each in under_way) == sorted(
            each.transactional_id for each in transactions if each.state not in AT_REST
        )
        seconds = [each.started_ms // SECOND_MS for each in under_way]
        assert seconds == sorted(seconds)

    # -- requests -----------------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str = "t", expected: Producer | None = None, timeout_ms: int = 60_000) -> ProducerReply:
        return self._with_producer_id(InitProducerId(transactional_id, timeout_ms, expected))

    def add(
        self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t", version: int = 0
    ) -> PartitionsReply:
        reply = self.ask(AddPartitions(transactional_id, producer, frozenset(partitions), version)).reply
        assert isinstance(reply, PartitionsReply)
        return reply

    def verify(self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t") -> PartitionsReply:
        reply = self.ask(VerifyPartitions(transactional_id, producer, frozenset(partitions))).reply
        assert isinstance(reply, PartitionsReply)
        return reply

    def end(self, producer: Producer, *, commit: bool = True, transactional_id: str = "t", version: int = 0) -> ProducerReply:
        return self._with_producer_id(EndTransaction(transactional_id, producer, commit, version))

    def write_markers(self, transactional_id: str = "t") -> Transaction:
        """All markers of the prepared transaction are written. Returns it as it was prepared."""
        prepared = self.transactions[transactional_id]
        self.ask(MarkersWritten(prepared))
        return prepared

    def ask(self, event: Any) -> CoordinatorRequest:
        pending = CoordinatorRequest(event)
        self.submit_event(event, pending)
        return pending

    def _with_producer_id(self, event: InitProducerId | EndTransaction) -> ProducerReply:
        reply = self.ask(event).reply
        if reply is PRODUCER_ID_NEEDED:
            reply = self.ask(event._replace(fresh_producer_id=next(self._producer_ids))).reply
        assert isinstance(reply, ProducerReply)
        return reply
