"""The first batch of a transaction waits until its coordinator has answered, and a marker ends what waits (KIP-890)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND, Append, Appended, AppendPartition
from libs.rpc.contracts.transactions import WRITE_MARKERS, Marker, WriteMarkers
from libs.rpc.messages.errors import DeadlineExceeded
from libs.transactions import question
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.storage.produce import returning_batches, transaction_verification
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, partition_of
from tests.storage.fake_transaction_coordinator import FakeTransactionCoordinator
from tests.support.polling import until

PRODUCER, SHARD, OWNER_EPOCH = 4711, 0, 9
OLD, WITH_ABORTABLE, ADDING = 9, 11, 12
"""Versions of Produce."""


@pytest.fixture
async def coordinator(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[FakeTransactionCoordinator]:
    played = await FakeTransactionCoordinator(cluster).own(short_dir)
    yield played
    await played.close()


def sending(
    cluster: StorageCluster,
    topic: bytes,
    sequence: int,
    *,
    epoch: int = 0,
    version: int = OLD,
    transactional_id: str | None = "t",
    timeout_s: float = WAIT_S,
) -> "asyncio.Future[Response]":
    """One transactional record on its way."""
    assert cluster.client is not None
    record = Record(None, b"x", 1_700_000_000_000)
    sent = bytes(build_batch([record], producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, transactional=True))
    request = Append(-1, 5000, (AppendPartition(topic, 0, -1, len(sent)),), transactional_id, -1, version)
    return cluster.client.call(APPEND, request, [sent], timeout_s=timeout_s)


async def send(cluster: StorageCluster, topic: bytes, sequence: int, **how: int) -> Appended:
    return appended(await sending(cluster, topic, sequence, **how))[0]


async def end(
    cluster: StorageCluster,
    topic: bytes,
    *,
    number: int = 1,
    epoch: int = 0,
    commits: bool = True,
    raises_epoch: bool = False,
    leader_epoch: int = 0,
    owner_epoch: int = OWNER_EPOCH,
) -> int:
    """A coordinator's marker; its error."""
    assert cluster.client is not None
    marker = Marker(topic, 0, leader_epoch, PRODUCER, epoch, commits, raises_epoch, SHARD, owner_epoch)
    reply = await cluster.client.call(WRITE_MARKERS, WriteMarkers(number, 5000, (marker,)), timeout_s=WAIT_S)
    return appended(reply)[0].error


def is_open(cluster: StorageCluster, topic: bytes) -> bool:
    return bool(partition_of(cluster, topic).log.producers.transactions.ongoing)


async def test_the_coordinator_is_asked_once_a_transaction_and_partition(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("asked")
    assert [(await send(cluster, topic, sequence)).error for sequence in range(3)] == [0, 0, 0]
    (request,) = coordinator.requests
    assert (request.transactional_id, request.producer_id, request.verify_only) == ("t", PRODUCER, True)
    assert request.partitions == (("asked", 0),)
    assert await end(cluster, topic) == 0
    assert (await send(cluster, topic, 3)).error == 0
    assert len(coordinator.requests) == 2


async def test_the_coordinator_hears_whose_marker_the_partition_had_last(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """Whoever was owner before that may still take for open what its successor has ended."""
    topic = await cluster.topic("known")
    for sequence, owner_epoch in enumerate((OWNER_EPOCH, OWNER_EPOCH + 1)):
        assert (await send(cluster, topic, sequence)).error == 0
        assert await end(cluster, topic, owner_epoch=owner_epoch) == 0
    assert (await send(cluster, topic, 2)).error == 0
    assert [request.coordinator_epoch for request in coordinator.requests] == [-1, OWNER_EPOCH, OWNER_EPOCH + 1]


async def test_leaders_add_partitions_for_clients_that_leave_it_to_them(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("added")
    assert (await send(cluster, topic, 0, version=ADDING)).error == 0
    assert not coordinator.requests[0].verify_only


async def test_batches_wait_in_order_for_the_answer(cluster: StorageCluster, coordinator: FakeTransactionCoordinator) -> None:
    topic = await cluster.topic("ordered")
    coordinator.held.clear()
    waiting = [sending(cluster, topic, sequence) for sequence in range(5)]
    await until(lambda: bool(coordinator.requests))
    assert (await cluster.append(topic, batch(b"of somebody else"))).base_offset == 0
    coordinator.held.set()
    assert [appended(reply)[0].base_offset for reply in await asyncio.gather(*waiting)] == [1, 2, 3, 4, 5]
    assert len(coordinator.requests) == 1


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, OLD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, WITH_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, OLD, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ADDING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, OLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADDING, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_refusals_are_kafkas(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, answer: ErrorCode, version: int, expected: ErrorCode
) -> None:
    topic = await cluster.topic("refused")
    coordinator.errors = [int(answer)]
    assert (await send(cluster, topic, 0, version=version)).error == expected
    assert not is_open(cluster, topic)
    coordinator.errors = [0]
    assert (await send(cluster, topic, 0, version=version)).error == 0, "nothing has changed"


async def test_a_failover_of_the_coordinator_is_hidden_for_a_bounded_time(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("failover")
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0]
    assert (await send(cluster, topic, 0)).error == 0
    assert len(coordinator.requests) == 3
    assert await end(cluster, topic) == 0
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR)]
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0.1)
    assert (await send(cluster, topic, 1)).error == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_batches_that_are_to_come_again_hold_up_no_newer_producer(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first batch was refused since the coordinator could not answer, and is never sent again."""
    topic = await cluster.topic("returning")
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0)
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR)]
    assert (await send(cluster, topic, 0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.errors = [0]
    assert (await send(cluster, topic, 1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(await send(cluster, topic, sequence, epoch=1)).error for sequence in range(2)] == [0, 0]


async def test_only_so_many_producers_whose_batches_are_to_come_again_are_remembered(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [await cluster.topic(name) for name in ("older", "newer")]
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0)
    monkeypatch.setattr(returning_batches, "PRODUCERS_MAX", 1)
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR)]
    for topic in topics:
        assert (await send(cluster, topic, 0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.errors = [0]
    assert [(await send(cluster, topic, 1)).error for topic in topics] == [0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


async def test_the_producer_whose_batches_were_refused_last_is_forgotten_last(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = [await cluster.topic(name) for name in ("first", "second", "third")]
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0)
    monkeypatch.setattr(returning_batches, "PRODUCERS_MAX", 2)
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR)]
    for topic in (first, second, first, third):
        assert (await send(cluster, topic, 0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.errors = [0]
    assert (await send(cluster, first, 1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await send(cluster, second, 1)).error == 0


async def test_a_zombies_refused_batch_lets_none_of_its_successors_overtake(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("outlived")
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0)
    coordinator.errors = [int(ErrorCode.NOT_COORDINATOR)]
    for epoch in (1, 0):
        assert (await send(cluster, topic, 0, epoch=epoch)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.errors = [0]
    assert (await send(cluster, topic, 1, epoch=1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(await send(cluster, topic, sequence, epoch=1)).error for sequence in range(2)] == [0, 0]


@pytest.mark.parametrize("version", [OLD, ADDING])
async def test_no_batch_overtakes_one_whose_caller_gave_up(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, version: int
) -> None:
    """The first batch was left out when the answer came, and the second one stored. Then the first was out of order for ever."""
    topic = await cluster.topic("given-up")
    coordinator.held.clear()
    given_up = sending(cluster, topic, 0, version=version, timeout_s=0.2)
    later = sending(cluster, topic, 1, version=version)
    with pytest.raises(DeadlineExceeded):
        await given_up
    assert (await cluster.append(topic, batch(b"of somebody else"))).error == 0, "the node knows that its caller gave up"
    coordinator.held.set()
    assert appended(await later)[0].error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not is_open(cluster, topic)
    assert [(await send(cluster, topic, sequence, version=version)).error for sequence in range(2)] == [0, 0]


async def test_a_batch_that_comes_again_while_its_first_copy_waits_is_stored(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("twice")
    coordinator.held.clear()
    given_up = sending(cluster, topic, 0, timeout_s=0.2)
    with pytest.raises(DeadlineExceeded):
        await given_up
    again = [sending(cluster, topic, sequence) for sequence in range(2)]
    assert (await cluster.append(topic, batch(b"of somebody else"))).base_offset == 0
    coordinator.held.set()
    assert [appended(reply)[0].base_offset for reply in await asyncio.gather(*again)] == [1, 2]


async def test_no_batch_overtakes_one_that_found_no_room_to_wait(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("no-room")
    with monkeypatch.context() as patched:
        patched.setattr(transaction_verification, "WAITING_BYTES_MAX", 1)
        assert (await send(cluster, topic, 0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await send(cluster, topic, 1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(await send(cluster, topic, sequence)).error for sequence in range(2)] == [0, 0]


async def test_a_batch_without_a_transactional_id_begins_no_transaction(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("nameless")
    refused = appended(await sending(cluster, topic, 0, transactional_id=None))[0]
    assert refused.error == ErrorCode.INVALID_TXN_STATE
    assert not coordinator.requests


async def test_a_marker_ends_what_waits_for_an_answer_about_its_transaction(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("ended")
    coordinator.held.clear()
    waiting = sending(cluster, topic, 0)
    await until(lambda: bool(coordinator.requests))
    assert await end(cluster, topic, commits=False) == 0
    assert appended(await waiting)[0].error == ErrorCode.INVALID_TXN_STATE
    coordinator.held.set()
    other = await cluster.topic("asked-later")
    assert (await send(cluster, other, 0)).error == 0  # the answers of one coordinator keep their order
    assert not is_open(cluster, topic), "the late answer begins no transaction that nobody would end"


async def test_a_marker_of_the_last_transaction_leaves_the_next_ones_batches_waiting(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """From `transaction.version` 2 on, the next transaction may begin before the marker came."""
    topic = await cluster.topic("next")
    assert (await send(cluster, topic, 0, version=ADDING)).error == 0
    coordinator.errors = [int(ErrorCode.CONCURRENT_TRANSACTIONS), 0]
    coordinator.held.clear()
    waiting = sending(cluster, topic, 0, epoch=1, version=ADDING)
    await until(lambda: len(coordinator.requests) == 2)
    assert await end(cluster, topic, epoch=1, raises_epoch=True) == 0
    coordinator.held.set()
    assert appended(await waiting)[0].error == 0
    assert is_open(cluster, topic)


async def test_a_question_that_is_asked_anew_behind_a_marker_names_its_owner(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """A former owner trusts its memory by that epoch. So it must not hear the one before."""
    topic = await cluster.topic("anew")
    coordinator.held.clear()
    waiting = sending(cluster, topic, 0, epoch=1)
    await until(lambda: bool(coordinator.requests))
    assert await end(cluster, topic, epoch=0, commits=False) == 0
    coordinator.held.set()
    assert appended(await waiting)[0].error == 0
    assert [request.coordinator_epoch for request in coordinator.requests] == [-1, OWNER_EPOCH]


async def test_a_zombies_batch_fails_none_of_its_successors(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("successor")
    coordinator.errors = [int(ErrorCode.PRODUCER_FENCED), 0]
    coordinator.held.clear()
    zombie = sending(cluster, topic, 0, epoch=0)
    await until(lambda: bool(coordinator.requests))
    successor = [sending(cluster, topic, sequence, epoch=1) for sequence in range(2)]
    assert (await cluster.append(topic, batch(b"of somebody else"))).error == 0
    coordinator.held.set()
    assert appended(await zombie)[0].error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert [appended(reply)[0].error for reply in await asyncio.gather(*successor)] == [0, 0]


async def test_a_late_marker_does_not_end_the_next_transaction(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """KIP-890: before `transaction.version` 2 the next transaction has the same epoch."""
    topic = await cluster.topic("late")
    assert (await send(cluster, topic, 0)).error == 0
    assert await end(cluster, topic, number=2) == 0
    assert (await send(cluster, topic, 1)).error == 0
    assert await end(cluster, topic, number=1) == ErrorCode.INVALID_REQUEST, "sent before number 2"
    assert await end(cluster, topic, number=7, owner_epoch=OWNER_EPOCH - 1) == ErrorCode.INVALID_REQUEST, "by a former owner"
    assert is_open(cluster, topic)
    assert await end(cluster, topic, number=3) == 0
    assert not is_open(cluster, topic)


async def test_a_marker_for_another_leader_epoch_is_refused(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("moved", epoch=4)
    assert (await send(cluster, topic, 0)).error == 0
    assert await end(cluster, topic, leader_epoch=3) == ErrorCode.INVALID_REQUEST
    assert await end(cluster, topic, leader_epoch=5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert is_open(cluster, topic)
    assert await end(cluster, topic, leader_epoch=4) == 0


async def test_a_marker_that_raises_the_epoch_ends_no_transaction_of_that_epoch(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("raised")
    assert (await send(cluster, topic, 0, version=ADDING)).error == 0
    assert await end(cluster, topic, number=1, epoch=1, raises_epoch=True) == 0
    assert await end(cluster, topic, number=2, epoch=1, raises_epoch=True) == 0, "a retry"
    assert (await send(cluster, topic, 0, epoch=1, version=ADDING)).error == 0
    assert await end(cluster, topic, number=3, epoch=1, raises_epoch=True) == ErrorCode.INVALID_TXN_STATE
    assert is_open(cluster, topic)


async def test_batches_of_an_ended_epoch_are_refused(cluster: StorageCluster, coordinator: FakeTransactionCoordinator) -> None:
    topic = await cluster.topic("zombie")
    assert (await send(cluster, topic, 0)).error == 0
    assert await end(cluster, topic, epoch=1, commits=False) == 0
    assert (await send(cluster, topic, 1)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(coordinator.requests) == 1, "the partition knows by itself"


async def test_an_unknown_producer_whose_leader_adds_partitions_begins_with_sequence_zero(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("first")
    assert (await send(cluster, topic, 5, version=ADDING)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await send(cluster, topic, 5, version=OLD)).error == 0


async def test_waiting_batches_are_refused_when_the_node_stops(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("stopped")
    coordinator.held.clear()
    waiting = sending(cluster, topic, 0)
    await until(lambda: bool(coordinator.requests))
    assert cluster.node is not None
    cluster.node.opened.appends.stop()
    assert appended(await waiting)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    coordinator.held.set()


async def test_waiting_batches_are_refused_when_the_leadership_ends(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    topic = await cluster.topic("lost")
    coordinator.held.clear()
    waiting = sending(cluster, topic, 0)
    await until(lambda: bool(coordinator.requests))
    await cluster.state(topic, epoch=1, leader=99)
    refused = appended(await waiting)[0]
    assert (refused.error, refused.in_log) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    coordinator.held.set()
