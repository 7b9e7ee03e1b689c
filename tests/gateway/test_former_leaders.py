"""Former leaders in Metadata: a busy idempotent producer hears of a new leader when that costs it no pause (ADR 32)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.records import STORAGE
from libs.cluster.store import Delete, Outcome
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.core import produced_partitions
from services.gateway.core.produced_partitions import PARTITIONS_MAX, QUIET_S, ProducedPartitions, ProducerConnections
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import RawClient, fetch_body
from tests.gateway.metadata_requests import topic_metadata
from tests.gateway.produce_requests import ask, error_of, idempotent, plain
from tests.support.polling import until

KEY, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)
BATCH = idempotent(0)


async def leader(client: RawClient, index: int = 0) -> tuple[int, int]:
    """(leader, its epoch), as the connection is told."""
    _, leaders = await topic_metadata(client, TOPIC)
    assert leaders[index].error == 0
    return leaders[index].leader, leaders[index].leader_epoch


async def brokers(client: RawClient) -> list[int]:
    return (await topic_metadata(client, TOPIC))[0]


async def produce(client: RawClient, number: int, *, partition: int = 0, batch: Callable[[int], bytes] = idempotent) -> None:
    ask(client, number, batch(number), partition=partition)
    assert await error_of(client, number) == 0


async def move(rig: Rig, leader: int, epoch: int, index: int = 0) -> None:
    assert rig.gateway is not None
    await rig.lead(index, leader, epoch, followers=(2,) if leader == 1 else (1,))
    await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)


async def test_a_busy_producer_goes_on_with_the_broker_id_that_it_uses_and_others_hear_the_truth(rig: Rig) -> None:
    await rig.start()
    producer, other = await rig.client(1), await rig.client(1)
    await produce(producer, 0)
    await move(rig, 2, 5)
    assert await leader(producer) == (1, 4)
    assert await leader(producer, 1) == (1, 0)
    assert await leader(other) == (2, 5)
    await produce(producer, 1)
    assert rig.nodes[2].stored == [(0, idempotent(1))]


async def test_while_nobody_leads_a_busy_producer_hears_nothing_of_it(rig: Rig) -> None:
    await rig.start()
    producer, other = await rig.client(1), await rig.client(1)
    await produce(producer, 0)
    await move(rig, -1, 5)
    assert await leader(producer) == (1, 4)
    _, leaders = await topic_metadata(other, TOPIC)
    assert leaders[0].error == ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_producer_that_is_connected_to_the_new_leader_hears_of_it(rig: Rig) -> None:
    await rig.start()
    producer, there = await rig.client(1), await rig.client(2)
    await produce(producer, 0)
    await move(rig, 2, 5)
    await produce(there, 0, partition=2, batch=lambda number: _of_producer(8))
    assert await leader(producer) == (1, 4)  # that is another producer
    await produce(there, 1, partition=1)
    assert await leader(producer) == (2, 5)
    await there.close()
    await until(lambda: rig.gateway is not None and rig.closed("client") + rig.closed("reset") == 1)
    assert await leader(producer) == (1, 4)


async def test_a_quiet_producer_hears_of_the_new_leader(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.start()
    producer = await rig.client(1)
    await produce(producer, 0)
    await move(rig, 2, 5)
    monkeypatch.setattr(produced_partitions, "QUIET_S", 0.0)
    assert await leader(producer) == (2, 5)


async def test_a_producer_without_idempotence_hears_of_the_new_leader(rig: Rig) -> None:
    await rig.start()
    producer = await rig.client(1)
    await produce(producer, 0, batch=plain)
    await produce(producer, 1, batch=plain)
    await move(rig, 2, 5)
    assert await leader(producer) == (2, 5)


async def test_a_client_that_also_fetches_hears_of_the_new_leader(rig: Rig, tmp_path: Path) -> None:
    rig.nodes[1].file = tmp_path / "records"
    rig.nodes[1].file.write_bytes(idempotent(0))
    await rig.start()
    client = await rig.client(1)
    await client.fetch(11, fetch_body(11, [(TOPIC, [(0, 0)])], max_wait_ms=0))
    await produce(client, 0)
    await move(rig, 2, 5)
    assert await leader(client) == (2, 5)


async def test_a_producer_that_was_refused_hears_of_the_new_leader(rig: Rig) -> None:
    await rig.start()
    producer = await rig.client(1)
    await produce(producer, 0)
    await move(rig, -1, 5)
    ask(producer, 1, idempotent(1), timeout_ms=1)
    assert await error_of(producer, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await move(rig, 2, 6)
    assert await leader(producer) == (2, 6)


async def test_a_broker_that_keeps_no_replica_is_named_no_more(rig: Rig) -> None:
    await rig.start()
    producer = await rig.client(1)
    await produce(producer, 0)
    await rig.lead(0, 2, 5)
    assert rig.gateway is not None
    await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    assert await leader(producer) == (2, 5)


async def test_a_dead_broker_stays_in_the_metadata_of_the_producers_that_use_it_until_it_is_unregistered(rig: Rig) -> None:
    gateway = await rig.start(fenced_broker_s_max=0.0)
    producer, other = await rig.client(1), await rig.client(1)
    await produce(producer, 0)
    await move(rig, 2, 5)
    assert (await rig.store.txn([], [Delete(keys.member(STORAGE, 1))])).outcome is Outcome.OK
    await until(lambda: 1 not in gateway.image.members(STORAGE))
    assert await brokers(other) == [2]
    assert await brokers(producer) == [1, 2]
    assert await leader(producer) == (1, 4)
    assert (await rig.store.txn([], [Delete(keys.node(1))])).outcome is Outcome.OK
    await until(lambda: 1 not in gateway.image.nodes)
    assert await brokers(producer) == [2]
    assert await leader(producer) == (2, 5)


def test_the_number_of_remembered_partitions_is_bounded() -> None:
    connections = ProducerConnections()
    produced = ProducedPartitions(1, connections)
    for index in range(10 * PARTITIONS_MAX):
        produced.note((b"t" * 16, index), BATCH, 0.0)
        assert len(list(produced.partitions())) <= PARTITIONS_MAX
    assert len(connections) == 1
    produced.end()
    assert len(connections) == 0


def test_a_connection_forgets_its_former_producer() -> None:
    connections = ProducerConnections()
    produced, twin = ProducedPartitions(1, connections), ProducedPartitions(1, connections)
    produced.note(KEY, _of_producer(7), 0.0)
    twin.note(KEY, _of_producer(7), 0.0)
    produced.note(OTHER, _of_producer(8), 0.0)
    assert connections.has(1, 7)
    assert connections.has(1, 8)
    twin.end()
    assert not connections.has(1, 7)
    produced.end()
    produced.end()
    assert len(connections) == 0


def test_each_partition_becomes_quiet_by_itself() -> None:
    produced = ProducedPartitions(1, ProducerConnections())
    produced.note(KEY, BATCH, 0.0)
    produced.note(OTHER, BATCH, 0.0)
    produced.note(OTHER, BATCH, 1.0)
    assert [produced.keeps(key, 2, QUIET_S) for key in (KEY, OTHER)] == [False, True]
    assert produced.is_busy(QUIET_S)
    assert not produced.is_busy(QUIET_S + 1.0)
    assert not produced.keeps(OTHER, 1, 1.0)


def test_the_bootstrap_port_is_nobodys_leader() -> None:
    produced = ProducedPartitions(-1, ProducerConnections())
    produced.note(KEY, BATCH, 0.0)
    assert not produced.keeps(KEY, 2, 0.0)
    assert not produced.is_busy(0.0)


def _of_producer(producer_id: int) -> bytes:
    return bytes(build_batch([Record(None, b"x")], producer_id=producer_id, producer_epoch=0, base_sequence=0))
