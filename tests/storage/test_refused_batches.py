"""Batches that a leader refused for now, of a producer that it does not know yet. No later batch overtakes them."""

import errno

import pytest

from libs.wire.errors import ErrorCode
from services.storage.produce import returning_batches
from tests.storage.cluster import StorageCluster, batch, partition_of
from tests.storage.held_disk import HeldDisk

PRODUCER = 4711


async def send(cluster: StorageCluster, topic: bytes, sequence: int, *, producer: int = PRODUCER, epoch: int = 0) -> int:
    return (await cluster.append(topic, batch(b"%d" % sequence, producer=(producer, epoch, sequence)))).error


@pytest.fixture
async def topic(cluster: StorageCluster) -> bytes:
    return await cluster.topic("refusing")


def need_replicas(cluster: StorageCluster, topic: bytes, count: int) -> None:
    partition_of(cluster, topic).replica.min_in_sync = count


async def refuse(cluster: StorageCluster, topic: bytes, *sequences: int) -> None:
    need_replicas(cluster, topic, 2)
    for sequence in sequences:
        assert await send(cluster, topic, sequence) == ErrorCode.NOT_ENOUGH_REPLICAS
    need_replicas(cluster, topic, 1)


async def test_a_later_batch_of_a_new_producer_does_not_overtake_a_refused_one(cluster: StorageCluster, topic: bytes) -> None:
    await refuse(cluster, topic, 0)
    assert await send(cluster, topic, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [await send(cluster, topic, sequence) for sequence in range(3)] == [0, 0, 0]


async def test_the_earliest_of_several_refused_batches_comes_first(cluster: StorageCluster, topic: bytes) -> None:
    await refuse(cluster, topic, 7, 8, 9)
    assert await send(cluster, topic, 8) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [await send(cluster, topic, sequence) for sequence in (7, 8)] == [0, 0]


async def test_a_write_that_failed_is_such_a_refusal(cluster: StorageCluster, topic: bytes, disk: HeldDisk) -> None:
    disk.fail_writes = errno.ENOSPC
    assert await send(cluster, topic, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    disk.fail_writes = None
    assert await send(cluster, topic, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [await send(cluster, topic, sequence) for sequence in range(2)] == [0, 0]


async def test_other_producers_and_epochs_wait_for_nothing(cluster: StorageCluster, topic: bytes) -> None:
    await refuse(cluster, topic, 0)
    assert await send(cluster, topic, 5, producer=PRODUCER + 1) == 0
    assert await send(cluster, topic, 0, epoch=1) == 0
    assert await send(cluster, topic, 1, epoch=1) == 0


async def test_a_batch_that_was_given_up_is_not_the_first_of_later_refusals(
    cluster: StorageCluster, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returning_batches, "TIMEOUT_S", 0.0)
    await refuse(cluster, topic, 0)
    monkeypatch.setattr(returning_batches, "TIMEOUT_S", 60.0)
    await refuse(cluster, topic, 1)
    assert await send(cluster, topic, 1) == 0


async def test_a_batch_that_was_given_up_is_waited_for_only_so_long(
    cluster: StorageCluster, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returning_batches, "TIMEOUT_S", 0.0)
    await refuse(cluster, topic, 0)
    assert await send(cluster, topic, 1) == 0
