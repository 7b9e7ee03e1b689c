"""DEBUG and TRACE lines about transactions: each transition and why, once it is committed."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.tables import Journal
from libs.telemetry.level_switches import Switches
from libs.telemetry.log_levels import set_level
from services.transaction_coordinator.core.requests import AddPartitions
from services.transaction_coordinator.core.transaction import Producer, Transaction
from services.transaction_coordinator.telemetry.transaction_log import TransactionLog
from tests.transaction_coordinator.stage import TransactionStage

MOVES, CHANGES, REFUSED = "transaction moves", "transaction changes", "transaction request refused"


class LoggedStage(TransactionStage):
    def make(self, journal: Journal) -> Any:
        self.machine = super().make(journal)
        return ObservedMachine(self.machine, journal, lambda events, now_ms: None, TransactionLog(self.machine))

    @property
    def transactions(self) -> dict[str, Transaction]:
        return self.machine.transactions


@pytest.fixture
def stage() -> LoggedStage:
    return LoggedStage()


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    set_level("transactions", "TRACE", "the test")
    yield
    logging.getLogger("transactions").setLevel(logging.NOTSET)
    Switches.look()


def lines(caplog: pytest.LogCaptureFixture, *events: str) -> list[tuple[object, ...]]:
    told = [record.__dict__["fields"] for record in caplog.records if record.message in events]
    return [(line["was"], line["state"], line["why"]) for line in told]


def test_each_transition_has_a_line_with_its_cause(stage: LoggedStage, caplog: pytest.LogCaptureFixture) -> None:
    producer = stage.init().producer
    stage.add(producer, ("t", 0), ("t", 1))
    stage.add(producer, ("t", 2))
    stage.end(producer)
    stage.write_markers()
    assert lines(caplog, MOVES) == [
        (None, "Empty", "InitProducerId"),
        ("Empty", "Ongoing", "AddPartitionsToTxn"),
        ("Ongoing", "PrepareCommit", "EndTxn, commit"),
        ("PrepareCommit", "CompleteCommit", "each partition has its marker"),
    ]
    assert lines(caplog, CHANGES) == [("Ongoing", "Ongoing", "AddPartitionsToTxn")]
    details = [record.__dict__["fields"] for record in caplog.records if record.message == MOVES][2]
    assert (details["transactional_id"], details["producer_id"], details["partitions"]) == ("t", producer.producer_id, 3)


def test_a_refusal_has_a_line_with_its_error(stage: LoggedStage, caplog: pytest.LogCaptureFixture) -> None:
    producer = stage.init().producer
    stage.add(Producer(producer.producer_id, producer.epoch + 5), ("t", 0))
    (refused,) = [record.__dict__["fields"] for record in caplog.records if record.message == REFUSED]
    assert (refused["transactional_id"], refused["request"]) == ("t", "AddPartitionsToTxn")
    assert refused["error"] in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


def test_a_transition_that_is_reverted_has_no_line(stage: LoggedStage, caplog: pytest.LogCaptureFixture) -> None:
    producer = stage.init().producer
    caplog.clear()
    stage.holds = True
    stage.ask(AddPartitions("t", producer, frozenset((("t", 0),)), client_version=0))
    assert lines(caplog, MOVES) == [], "its record may still be lost"
    stage.fence(stored=False)
    assert lines(caplog, MOVES) == []


def test_switched_off_no_line_is_prepared(
    stage: LoggedStage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("nobody reads it")

    set_level("transactions", "INFO", "the test")
    monkeypatch.setattr(TransactionLog, "line", unexpected)
    producer = stage.init().producer
    stage.add(producer, ("t", 0))
    stage.end(producer)
    assert lines(caplog, MOVES, CHANGES) == []


def _fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("line", [lambda *_: _fail(), lambda *_: _fail], ids=["when it is decided", "when it is committed"])
def test_a_line_that_cannot_be_written_costs_no_answer(
    stage: LoggedStage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, line: Callable[..., object]
) -> None:
    monkeypatch.setattr(TransactionLog, "line", line)
    producer = stage.init().producer
    assert stage.add(producer, ("t", 0)).error_code == 0
    assert stage.end(producer).error_code == 0
    assert {record.message for record in caplog.records} == {"a decision cannot be logged"}
