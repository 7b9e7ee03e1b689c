"""Transactions in one shard: effects, uncommitted changes, late facts, and the expiry of unused transactional ids."""

from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.requests import (
    PRODUCER_ID_NEEDED,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    VerifyPartitions,
)
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.core.transaction_machine import EXPIRED_AT_ONCE, TransactionMachine, TransactionSettings
from tests.transaction_coordinator.stage import TransactionStage

ID_EXPIRATION_MS = 10_000
CHECK_MS = 1_000


@pytest.fixture
def stage() -> TransactionStage:
    return TransactionStage(TransactionSettings(ID_EXPIRATION_MS, CHECK_MS))


def waiting_for_markers(stage: TransactionStage) -> list[str]:
    machine: Any = stage.shard.machine
    assert isinstance(machine, TransactionMachine)
    return [transaction.transactional_id for transaction in machine.prepared]


def test_a_new_producer_needs_a_producer_id(stage: TransactionStage) -> None:
    assert stage.ask(InitProducerId("t", 1000, None)).reply is PRODUCER_ID_NEEDED
    assert not stage.transactions
    assert not stage.log


def test_markers_of_an_earlier_transaction_complete_no_later_one(stage: TransactionStage) -> None:
    producer = stage.init().producer
    stage.add(producer, ("a", 0))
    stage.end(producer)
    earlier = stage.write_markers()
    stage.now_ms += 1
    stage.add(producer, ("a", 0))
    stage.end(producer)
    assert stage.ask(MarkersWritten(earlier)).error == ErrorCode.INVALID_TXN_STATE
    assert stage.transactions["t"].state is State.PREPARE_COMMIT


def test_who_loads_a_shard_finds_the_transactions_that_wait_for_markers(stage: TransactionStage) -> None:
    for name in ("ended", "ongoing", "marked"):
        producer = stage.init(name).producer
        stage.add(producer, ("a", 0), transactional_id=name)
        if name != "ongoing":
            stage.end(producer, transactional_id=name)
    stage.write_markers("marked")
    stage.fail_over()
    assert waiting_for_markers(stage) == ["ended"]


def test_partitions_are_not_added_before_that_is_committed(stage: TransactionStage) -> None:
    producer = stage.init().producer
    stage.holds = True
    added = stage.ask(AddPartitions("t", producer, frozenset({("a", 0)}), 0))
    assert added.waits
    stage.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert added.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.transactions["t"].state is State.EMPTY


def test_a_former_owner_answers_nobody_from_memory(stage: TransactionStage) -> None:
    """Its successor may know a newer epoch, or a transaction that an older client has begun with the same one."""
    producer = stage.init().producer
    stage.add(producer, ("a", 0))
    stage.end(producer)
    stage.write_markers()
    unknown = Producer(producer.producer_id, producer.epoch + 1)
    stage.holds = True
    asked = [
        stage.ask(EndTransaction("t", producer, True, 0)),
        stage.ask(EndTransaction("t", producer, False, 0)),
        stage.ask(EndTransaction("t", unknown, True, 0)),
        stage.ask(AddPartitions("t", unknown, frozenset({("a", 0)}), 2)),
        stage.ask(VerifyPartitions("t", unknown, frozenset({("a", 0)}))),
        stage.ask(InitProducerId("t", 1000, unknown)),
    ]
    assert [each.waits for each in asked] == [True] * len(asked)
    stage.refuse(ErrorCode.NOT_COORDINATOR)
    assert [each.error for each in asked] == [ErrorCode.NOT_COORDINATOR] * len(asked)


def test_many_unused_ids_are_removed_in_turns(stage: TransactionStage) -> None:
    count = 2 * EXPIRED_AT_ONCE + 1
    for index in range(count):
        stage.init(f"t{index}")
    stage.wait(ID_EXPIRATION_MS - 1)
    assert len(stage.transactions) == count
    stage.wait(CHECK_MS + 10)
    assert not stage.transactions
    stage.fail_over()
    assert not stage.transactions


def test_an_id_that_is_used_is_kept(stage: TransactionStage) -> None:
    producer = stage.init().producer
    for _ in range(5):
        stage.wait(ID_EXPIRATION_MS - CHECK_MS)
        producer = stage.init(expected=producer).producer
    assert stage.transactions["t"].producer == producer


def test_partitions_are_only_added_if_the_end_of_the_transaction_fits_a_batch_too(stage: TransactionStage) -> None:
    """The record of the end has a few bytes more. Where those did not fit, neither the producer nor the timeout ended it."""
    stage.batch_bytes_max = 4_000
    stage.fail_over()
    producer = stage.init().producer
    added = 0
    while stage.ask(AddPartitions("t", producer, frozenset((("a", added),)), 2)).failure == 0:
        added += 1
    assert added > 500, "a batch has room for them"
    stage.wait(60_000)
    assert stage.transactions["t"].state is State.PREPARE_ABORT
    assert len(stage.write_markers().partitions) == added


def test_long_transactional_ids_expire_in_batches_that_the_log_takes() -> None:
    """A thousand ids of 2 KB fitted no batch: none of them expired."""
    stage = TransactionStage(TransactionSettings(id_expiration_ms=1_000, expiry_check_ms=500))
    for number in range(1_000):
        stage.init(f"{number:02000}")
    stage.wait(10_000)
    assert not stage.transactions
    assert not stage.shard.unwritable


def test_ids_expire_one_by_one_where_the_topic_allows_only_small_batches() -> None:
    stage = TransactionStage(TransactionSettings(id_expiration_ms=1_000, expiry_check_ms=500))
    for number in range(20):
        stage.init(f"{number:0200}")
    stage.shard.batch_bytes_max = 300
    stage.wait(100_000)
    assert not stage.transactions
    assert all(noted.replaced for noted in stage.shard.unwritable)


def test_a_transaction_that_the_topic_allows_no_more_ends_once_it_is_allowed_again(stage: TransactionStage) -> None:
    producer = stage.init().producer
    stage.add(producer, *[("a", index) for index in range(200)])
    stage.shard.batch_bytes_max = 300
    stage.wait(70_000)
    assert stage.transactions["t"].state is State.ONGOING
    assert {noted.replaced for noted in stage.shard.unwritable} == {False}
    stage.shard.batch_bytes_max = 100_000
    stage.wait(10_000)
    assert stage.transactions["t"].state is State.PREPARE_ABORT
