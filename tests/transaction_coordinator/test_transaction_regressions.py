"""Bugs of other systems' transactions, one test each: here, or where the table says."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core import record_codec
from services.transaction_coordinator.core.requests import InitProducerId
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import EPOCH_MAX, EXHAUSTED_EPOCH, Producer, TransactionChanged
from tests.transaction_coordinator.stage import TransactionStage

TRACES = "transaction_coordinator/test_published_traces.py"
GROUPS = "group_coordinator/test_transactional_offsets.py"
LEADERS = "storage/test_transaction_verification.py"

ELSEWHERE = {
    "KIP-890, a late EndTxn": f"{TRACES}::test_kip_890_a_late_end_acts_on_no_later_transaction",
    "KIP-890, a repeated EndTxn": f"{TRACES}::test_kip_890_an_end_that_comes_twice_ends_nothing_more",
    "KIP-890, a late batch": f"{TRACES}::test_kip_890_a_batch_after_the_abort",
    "KIP-890, a late marker": f"{TRACES}::test_kip_890_a_late_marker_leaves_the_next_transaction_whole",
    "KAFKA-14402": f"{TRACES}::test_kafka_14402_a_batch_for_a_partition_that_was_never_added",
    "KAFKA-16352": (
        "transaction_coordinator/test_marker_writer.py::test_kafka_16352_the_end_of_former_markers_forgets_no_later_ones"
    ),
    "KAFKA-9777": f"{TRACES}::test_kafka_9777_a_prepared_transaction_is_completed_once_its_leader_is_back",
    "KAFKA-9144": "commitlog/test_producer_expiry.py::test_kafka_9144_a_marker_counts_as_a_sign_of_life",
    "KAFKA-21181": f"{TRACES}::test_kafka_21181_a_demoted_coordinator_answers_nothing_from_its_cache",
    "KIP-1228": f"{LEADERS}::test_a_marker_that_raises_the_epoch_ends_no_transaction_of_that_epoch",
    "KAFKA-14884": f"{TRACES}::test_kafka_14884_the_transaction_ends_between_the_answer_and_the_append",
    "KAFKA-14920": f"{TRACES}::test_kafka_14920_no_batch_overtakes_one_whose_verification_failed",
    "KAFKA-15784": (
        "group_coordinator/offsets/test_transactional_commits.py::test_kafka_15784_offsets_that_are_not_in_the_log_are_not_pending"
    ),
    "KAFKA-17507": f"{GROUPS}::test_kafka_17507_a_marker_is_answered_once_its_offsets_are_there",
    "a begin in memory": f"{TRACES}::test_a_begin_outlives_the_coordinator",
    "offsets before the commit resolves": f"{GROUPS}::test_a_late_marker_does_not_end_the_next_transaction",
    "five batches": "commitlog/test_producers.py::test_the_window_holds_five_batches_and_the_sixth_last_is_an_error",
    "an older epoch's abort": f"{TRACES}::test_the_end_of_an_older_producer_leaves_the_newer_ones_transaction_open",
    "an older epoch's marker": "commitlog/test_transactions.py::test_a_marker_of_an_older_epoch_is_refused",
    "the aborted list": "storage/test_transactions.py::test_the_list_goes_no_further_than_the_read",
    "EndTxn while completing": f"{TRACES}::test_kafka_9777_a_prepared_transaction_is_completed_once_its_leader_is_back",
    "no batches": f"{TRACES}::test_a_transaction_without_batches_ends_as_any_other",
}


@pytest.mark.parametrize("scenario", ELSEWHERE)
def test_every_scenario_has_its_test(scenario: str, root: Path) -> None:
    file, name = ELSEWHERE[scenario].split("::")
    assert re.search(rf"^(async )?def {name}\(", (root / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), ELSEWHERE[
        scenario
    ]


@pytest.fixture
def stage() -> TransactionStage:
    return TransactionStage()


def test_kafka_9666_a_fence_that_is_not_in_the_log_raises_no_epoch(stage: TransactionStage) -> None:
    """While the log could not be written, each InitProducerId raised the epoch in memory, until none was left."""
    producer = stage.init().producer
    stage.add(producer, ("a", 0))
    for _ in range(3):
        stage.holds = True
        fencing = stage.ask(InitProducerId("t", 60_000, None))
        stage.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert fencing.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (stage.transactions["t"].state, stage.transactions["t"].producer) == (State.ONGOING, producer)
    assert not stage.end(producer).error_code, "the producer goes on"


@pytest.fixture
def exhausted(stage: TransactionStage) -> Producer:
    """A producer with the last epoch of its producer id."""
    stage.init()
    known = stage.transactions["t"]
    last = replace(known, producer=Producer(known.producer.producer_id, EXHAUSTED_EPOCH))
    stage.log.append(record_codec.encode(TransactionChanged(last)))
    stage.fail_over()
    return last.producer


def test_kafka_18660_the_next_producer_id_waits_for_the_markers_of_the_former(
    stage: TransactionStage, exhausted: Producer
) -> None:
    """EndTxn had answered the next producer id. Until the markers were written the coordinator did not know it, and its producer
    was fenced by its own commit."""
    stage.add(exhausted, ("a", 0), version=2)
    following = stage.end(exhausted, version=2).producer
    assert following.epoch == 0
    assert following.producer_id != exhausted.producer_id
    assert stage.add(following, ("a", 0), version=2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.verify(following, ("a", 0)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.end(following, commit=False, version=2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.init(expected=following).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    stage.write_markers()
    assert not stage.add(following, ("a", 0), version=2).error_code
    assert stage.end(following, version=2).producer == Producer(following.producer_id, 1)


def test_the_end_of_the_next_transaction_waits_for_the_markers_of_the_last(stage: TransactionStage) -> None:
    """A producer aborts a transaction whose first batch could not be added yet. It is not the other outcome of the last one."""
    producer = stage.init().producer
    stage.add(producer, ("a", 0), version=2)
    following = stage.end(producer, version=2).producer
    assert stage.end(following, commit=False, version=2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    stage.write_markers()
    assert not stage.end(following, commit=False, version=2).error_code


def test_kafka_20357_a_retry_after_a_failover_is_known(stage: TransactionStage) -> None:
    """The log did not have the last epoch. A client whose answer was lost with the coordinator was fenced by its own request."""
    producer = stage.init().producer
    answered = stage.init(expected=producer).producer
    stage.fail_over()
    assert stage.init(expected=producer).producer == answered


def test_kafka_20357_a_retry_by_the_former_producer_id_is_known(stage: TransactionStage, exhausted: Producer) -> None:
    answered = stage.init(expected=exhausted).producer
    stage.fail_over()
    assert stage.init(expected=exhausted).producer == answered


def test_kafka_20310_the_next_producer_id_outlives_the_coordinator(stage: TransactionStage, exhausted: Producer) -> None:
    """The log did not have the next producer id. After a failover the exhausted epoch stayed for ever."""
    stage.add(exhausted, ("a", 0), version=2)
    following = stage.end(exhausted, version=2).producer
    stage.fail_over()
    stage.write_markers()
    assert stage.transactions["t"].producer == following
    assert stage.end(exhausted, version=2).producer == following, "a retry"


def test_kafka_20090_a_late_abort_gets_no_epoch_that_only_fences_have(stage: TransactionStage, exhausted: Producer) -> None:
    """The transaction of the last epoch took too long. Its fence had the largest epoch, and a late EndTxn was answered with that.
    A transaction with it could not be fenced any more, and stayed open."""
    stage.add(exhausted, ("a", 0), version=2)
    stage.wait(60_000)
    assert stage.end(exhausted, commit=False, version=2).error_code == ErrorCode.PRODUCER_FENCED
    stage.write_markers()
    assert stage.end(exhausted, commit=False, version=2).error_code == ErrorCode.PRODUCER_FENCED
    following = stage.init().producer
    assert following.epoch == 0
    assert following.producer_id != exhausted.producer_id


def log_epoch(stage: TransactionStage, epoch: int, **fields: Any) -> Producer:
    """Has the log say that the transactional id is at that epoch, as Kafka's may."""
    known = replace(stage.transactions["t"], **fields)
    producer = Producer(known.producer.producer_id, epoch)
    stage.log.append(record_codec.encode(TransactionChanged(replace(known, producer=producer))))
    stage.fail_over()
    return producer


@pytest.mark.parametrize("version", [0, 2])
def test_the_largest_epoch_belongs_to_no_producer(stage: TransactionStage, version: int) -> None:
    """A client named the epoch of a fence. Its transaction could not be ended, since no epoch is left above it."""
    stage.init()
    last = log_epoch(stage, EXHAUSTED_EPOCH)
    stage.add(last, ("a", 0))
    stage.init()
    stage.write_markers()
    fence = stage.transactions["t"].producer
    assert fence == Producer(last.producer_id, EPOCH_MAX)
    assert stage.add(fence, ("a", 0), version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert stage.verify(fence, ("a", 0)).error_code == ErrorCode.PRODUCER_FENCED
    for commit in (True, False):
        assert stage.end(fence, commit=commit, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert stage.transactions["t"].state is State.COMPLETE_ABORT
    assert stage.init().producer.epoch == 0


@pytest.mark.parametrize("by", ["timeout", "another producer"])
@pytest.mark.parametrize("client_version", [0, 2])
def test_kafka_20090_a_transaction_with_the_largest_epoch_is_aborted(
    stage: TransactionStage, by: str, client_version: int
) -> None:
    """A log of Kafka's has one. Each attempt to abort it failed, since the fence would need a larger epoch."""
    producer = stage.init().producer
    stage.add(producer, ("a", 0))
    zombie = log_epoch(stage, EPOCH_MAX, client_version=client_version)
    if by == "timeout":
        stage.wait(60_000)
    else:
        assert stage.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    prepared = stage.write_markers()
    assert prepared.state is State.PREPARE_ABORT
    assert prepared.client_version == 0, "leaders take a marker of the same epoch from old clients' transactions only"
    assert stage.add(zombie, ("a", 0), version=client_version).error_code == ErrorCode.PRODUCER_FENCED
    following = stage.init().producer
    assert following.epoch == 0
    assert following.producer_id != zombie.producer_id
