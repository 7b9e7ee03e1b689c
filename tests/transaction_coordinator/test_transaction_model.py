"""Any history of one transactional id: producers that come, retry and fall behind, failovers, lost replies, timeouts.

The model is what a producer may rely on. A producer id with its epoch belongs to one producer. A transaction has one outcome: the
one that its producer was told, in each of its partitions. No marker has an epoch below that of the records that it ends.
"""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core import ending, init_producer_id, record_codec
from services.transaction_coordinator.core.states import PREPARED, State
from services.transaction_coordinator.core.transaction import (
    EPOCH_MAX,
    EXHAUSTED_EPOCH,
    Producer,
    TopicPartition,
    Transaction,
    TransactionChanged,
)
from tests.simulation.planted import Mutant
from tests.transaction_coordinator.stage import TransactionStage

PARTITIONS: list[TopicPartition] = [("a", 0), ("a", 1), ("b", 0)]
TIMEOUT_MS = 1000

WALKS = 2000
STEPS = 40


@dataclass
class Client:
    """A producer of the transactional id, which believes what it was told."""

    producer: Producer | None = None
    partitions: set[TopicPartition] = field(default_factory=set)
    """Those that it added to the transaction under way, and knows it."""
    unanswered: tuple[bool, int] | None = None
    """The EndTxn, as (commit, version), whose reply was lost. It does nothing else until it has one."""


class History:
    """One random history. Each step is drawn; what it must not do is asserted in it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.stage = TransactionStage()
        self.clients = [Client() for _ in range(3)]
        self.holders: dict[Producer, int] = {}
        """The client that holds a producer id and epoch, or held it last."""
        self.added: dict[TopicPartition, Producer] = {}
        """Partitions of the transaction under way, with the producer that wrote there."""
        self.outcome: bool | None = None
        """The outcome of the transaction that waits for markers, if it was told: True for a commit."""
        self.raised_epoch = False
        """Whether the end of that transaction raised the epoch."""
        if random.random() < 0.3:
            self.spend_epochs()

    def spend_epochs(self) -> None:
        """Has the log begin a few epochs before the last one."""
        self.stage.init(timeout_ms=TIMEOUT_MS)
        known = self.stage.transactions["t"]
        spent = replace(known, producer=Producer(known.producer.producer_id, EXHAUSTED_EPOCH - self.random.randrange(5)))
        self.stage.log.append(record_codec.encode(TransactionChanged(spent)))
        self.stage.fail_over()

    def step(self) -> None:
        random = self.random
        name = random.randrange(len(self.clients))
        match random.choice(
            ("init", "init", "add", "add", "add", "end", "end", "markers", "markers", "wait", "fail over", "verify", "fence")
        ):
            case "init":
                self.init(name, retries=random.random() < 0.5, lost=random.random() < 0.2)
            case "add":
                self.add(name, random.choice(PARTITIONS), random.choice((0, 2)))
            case "end":
                self.end(name, commit=random.random() < 0.6, version=random.choice((0, 2)), lost=random.random() < 0.3)
            case "markers":
                self.markers()
            case "wait":
                self.stage.wait(random.randrange(1, TIMEOUT_MS))
            case "fail over":
                self.fail_over()
            case "verify":
                self.verify(name)
            case "fence":
                self.name_a_fence(random.choice((0, 2)))
        self.check()

    @property
    def current(self) -> Transaction | None:
        return self.stage.transactions.get("t")

    def init(self, name: int, *, retries: bool, lost: bool) -> None:
        client, before = self.clients[name], self.current
        expected = client.producer if retries else None
        reply = self.stage.init(expected=expected, timeout_ms=TIMEOUT_MS)
        if reply.error_code:
            assert reply.error_code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
            if reply.error_code == ErrorCode.PRODUCER_FENCED:
                assert self.current == before, "a fenced producer changes nothing"
            return
        assert self.current is not None
        assert self.current.state is State.EMPTY
        assert reply.producer.epoch <= EXHAUSTED_EPOCH, "an epoch is left that fences"
        if reply.producer in self.holders:
            assert retries, "a new producer gets what nobody had"
            assert self.holders[reply.producer] == name, "it belongs to somebody else"
        self.holders[reply.producer] = name
        if not lost:
            client.producer, client.partitions, client.unanswered = reply.producer, set(), None

    def add(self, name: int, partition: TopicPartition, version: int) -> None:
        client = self.clients[name]
        if client.producer is None or client.unanswered:
            return
        reply = self.stage.add(client.producer, partition, version=version)
        if not reply.error_code:
            assert self.holders[client.producer] == name
            client.partitions.add(partition)
            self.added[partition] = client.producer

    def end(self, name: int, *, commit: bool, version: int, lost: bool) -> None:
        client, before = self.clients[name], self.current
        if client.producer is None:
            return
        if client.unanswered:
            commit, version = client.unanswered
        reply = self.stage.end(client.producer, commit=commit, version=version)
        if reply.error_code:
            assert self.current == before
            return
        assert self.holders[client.producer] == name or not client.partitions, "another producer's transaction"
        after = self.current
        assert after is not None
        assert before is not None
        if after != before:
            assert after.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
            assert client.partitions <= after.partitions
            self.outcome, self.raised_epoch = commit, version == 2
        else:
            assert before.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT), "a retry has the same outcome"
        self.holders[reply.producer] = name
        if lost:
            client.unanswered = commit, version
        else:
            client.producer, client.partitions, client.unanswered = reply.producer, set(), None

    def markers(self) -> None:
        if self.current is None or self.current.state not in PREPARED:
            return
        prepared = self.stage.write_markers()
        assert set(prepared.partitions) == set(self.added), "each partition, and no other, gets a marker"
        if self.outcome is not None:
            assert self.outcome == (prepared.state is State.PREPARE_COMMIT), "what the producer was told"
        for producer in self.added.values():
            assert producer.producer_id == prepared.producer.producer_id
            assert producer.epoch <= prepared.producer.epoch
            if self.raised_epoch or self.outcome is None:
                assert producer.epoch < prepared.producer.epoch, "late batches belong to an old epoch"
        self.added, self.outcome, self.raised_epoch = {}, None, False

    def fail_over(self) -> None:
        before = self.current
        self.stage.fail_over()
        assert self.current == before, "the log has it all"

    def verify(self, name: int) -> None:
        client = self.clients[name]
        if client.producer is None or not client.partitions:
            return
        reply = self.stage.verify(client.producer, *client.partitions)
        ongoing = self.current is not None and self.current.state is State.ONGOING and self.current.producer == client.producer
        assert ongoing == (not reply.error_code and not any(reply.partitions.values()))

    def name_a_fence(self, version: int) -> None:
        """A client names the epoch that fences have, which DescribeTransactions shows to anybody."""
        before = self.current
        if before is None or before.producer.epoch != EPOCH_MAX:
            return
        refusals = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
        assert self.stage.add(before.producer, PARTITIONS[0], version=version).error_code in refusals
        assert self.stage.verify(before.producer, PARTITIONS[0]).error_code in refusals
        for commit in (True, False):
            assert self.stage.end(before.producer, commit=commit, version=version).error_code in refusals
        assert self.current == before, "it belongs to nobody"

    def end_all(self) -> None:
        """Whatever happened, a new producer gets the transactional id as soon as markers are written."""
        for _ in range(3):
            reply = self.stage.init(timeout_ms=TIMEOUT_MS)
            if not reply.error_code:
                return
            assert reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            self.markers()
        raise AssertionError(f"the transaction does not end: {self.current}")

    def check(self) -> None:
        self.stage.check_index()
        if self.current is not None and self.current.state is State.ONGOING:
            assert self.current.producer.epoch <= EXHAUSTED_EPOCH, "an epoch is left for a fence"


def walk(seed: int) -> set[State]:
    """One history. Returns the states that it reached."""
    history, reached = History(Random(seed)), set()
    for _ in range(STEPS):
        history.step()
        if history.current is not None:
            reached.add(history.current.state)
    history.end_all()
    return reached


def test_any_history_keeps_what_producers_rely_on() -> None:
    reached = set().union(*(walk(seed) for seed in range(WALKS)))
    assert reached == set(State) - {State.DEAD}, "each state was reached"


PLANTED = {
    "the largest epoch belongs to whoever names it": Mutant(
        Transaction.belongs_to, "producer == self.producer and producer.epoch < EPOCH_MAX", "producer == self.producer"
    ),
    "an end takes the largest epoch from whoever names it": Mutant(
        ending.decide,
        "not current.belongs_to(request.producer)",
        "request.producer.epoch != current.producer.epoch",
    ),
    "InitProducerId goes beyond the last epoch": Mutant(init_producer_id.decide, "current.is_exhausted and", "False and"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    with PLANTED[bug].planted():
        for seed in range(300):
            try:
                walk(seed)
            except Exception:
                return
    raise AssertionError("not found")
