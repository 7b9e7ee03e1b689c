"""A partition whose log holds transactions: what readers of committed records get."""

from collections.abc import Callable
from functools import partial

import pytest

from libs.commitlog.partition_log.log import Log
from libs.rpc.contracts.storage import (
    LIST_OFFSETS,
    Fetched,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
)
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.fetch import reading
from services.storage.partition import partition as partition_module
from services.storage.partition.partition import Partition
from tests.commitlog.harness import append_some
from tests.commitlog.transactional import end, produce
from tests.storage.cluster import WAIT_S, StorageCluster, batch, fetched, parked, partition_of
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

COMMITTED = 1


def write(cluster: StorageCluster, topic: bytes, what: Callable[[Log], object]) -> None:
    """As an append of the node's own, for a coordinator, will: into the log, then to the disk."""
    partition = partition_of(cluster, topic)
    what(partition.log)
    partition.next_offset = partition.log.log_end_offset
    partition.replica.appended(partition.next_offset)
    partition.sync.appended(partition)
    partition.sync.mark_urgent()
    partition.sync.start_round()


async def committed(cluster: StorageCluster, topic: bytes) -> None:
    partition = partition_of(cluster, topic)
    await until(lambda: cluster_is_at(partition))


def cluster_is_at(partition: Partition) -> bool:
    return partition.replica.high_watermark == partition.log.log_end_offset


async def read(cluster: StorageCluster, topic: bytes, offset: int = 0, **changes: int) -> Fetched:
    return await cluster.fetch(topic, offset, isolation=COMMITTED, **changes)


async def latest(cluster: StorageCluster, topic: bytes, isolation: int, timestamp: int = -1) -> int:
    assert cluster.client is not None
    request = ListOffsets(isolation, (ListOffsetsPartition(topic, 0, timestamp),))
    reply = await cluster.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)
    return unpack(ListOffsetsReply, reply.body).partitions[0].offset


async def test_committed_readers_get_what_lies_before_the_last_stable_offset(cluster: StorageCluster) -> None:
    topic = await cluster.topic("held")
    write(cluster, topic, lambda log: append_some(log, 2))
    write(cluster, topic, lambda log: produce(log, 1))
    write(cluster, topic, lambda log: append_some(log, 2))
    await committed(cluster, topic)
    answer = await read(cluster, topic)
    everything = await cluster.fetch(topic, 0)
    assert (
        (answer.high_watermark, answer.last_stable_offset) == (everything.high_watermark, everything.last_stable_offset) == (5, 2)
    )
    assert 0 < answer.ranges[0].length < everything.ranges[0].length
    assert answer.readable_to == answer.ranges[0].length
    assert (await read(cluster, topic, 2)).ranges == ()


async def test_aborted_transactions_are_listed_for_committed_readers_only(cluster: StorageCluster) -> None:
    """Regression 57: with the data, from the same state."""
    topic = await cluster.topic("aborted")
    write(cluster, topic, lambda log: produce(log, 1))
    write(cluster, topic, lambda log: produce(log, 2))
    write(cluster, topic, lambda log: end(log, 1, commit=False))
    write(cluster, topic, lambda log: end(log, 2, commit=True))
    await committed(cluster, topic)
    assert (await read(cluster, topic)).aborted == ((1, 0),)
    assert (await read(cluster, topic, inline=True)).aborted == ((1, 0),)
    assert (await cluster.fetch(topic, 0)).aborted == ()
    assert (await read(cluster, topic, 3)).aborted == ()


async def test_the_list_goes_no_further_than_the_read(cluster: StorageCluster) -> None:
    topic = await cluster.topic("bounded", index_interval_bytes="1")
    for _ in range(3):
        write(cluster, topic, lambda log: produce(log, 1, size=500))
        write(cluster, topic, lambda log: end(log, 1, commit=False))
    await committed(cluster, topic)
    assert (await read(cluster, topic)).aborted == ((1, 0), (1, 2), (1, 4))
    assert (await read(cluster, topic, max_bytes=1)).aborted == ((1, 0),)


async def test_a_read_that_would_name_many_transactions_is_shorter(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("many", index_interval_bytes="1")
    for _ in range(40):
        write(cluster, topic, lambda log: produce(log, 1, size=500))
        write(cluster, topic, lambda log: end(log, 1, commit=False))
    await committed(cluster, topic)
    whole = (await read(cluster, topic)).ranges[0].length
    monkeypatch.setattr(reading, "ABORTED_MAX", 10)
    answer = await read(cluster, topic, max_wait_ms=60_000, min_bytes=whole)
    assert answer.aborted == tuple([(1, 2 * number) for number in range(len(answer.aborted))])
    assert 2 <= len(answer.aborted) <= 10
    assert whole // 16 <= answer.ranges[0].length <= whole // 4
    monkeypatch.setattr(reading, "ABORTED_MAX", 0)
    answer = await read(cluster, topic)
    assert answer.aborted == ((1, 0),), "one batch at least, with all that its reader needs"


async def test_a_committed_reader_hears_of_the_transactions_ahead(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads on without its leader, as far as the list goes."""
    topic = await cluster.topic("ahead", index_interval_bytes="1")
    for producer in (1, 2, 1):
        write(cluster, topic, partial(produce, producer_id=producer, size=500))
        write(cluster, topic, partial(end, producer_id=producer, commit=False))
    write(cluster, topic, lambda log: produce(log, 3))
    await committed(cluster, topic)
    everything = await read(cluster, topic)
    size = everything.ranges[0].length
    answer = await read(cluster, topic, max_bytes=1)
    assert answer.aborted == ((1, 0),)
    assert answer.aborted_ahead == ((1, 0, 1), (2, 2, 3), (1, 4, 5))
    assert answer.readable_to == size
    assert (await read(cluster, topic, 3, max_bytes=1)).aborted_ahead == ((2, 2, 3), (1, 4, 5))
    assert (await cluster.fetch(topic, 0)).aborted_ahead == ()
    monkeypatch.setattr(partition_module, "READ_ON_ABORTED_MAX", 2)
    answer = await read(cluster, topic, max_bytes=1)
    assert (answer.aborted, answer.aborted_ahead, answer.readable_to) == (((1, 0),), (), -1)
    monkeypatch.setattr(partition_module, "READ_ON_BYTES", 0)
    monkeypatch.setattr(partition_module, "READ_ON_TIMES", 2)
    answer = await read(cluster, topic, max_bytes=1)
    assert answer.aborted_ahead == ((1, 0, 1), (2, 2, 3))
    assert answer.ranges[0].length < answer.readable_to < size


async def test_a_waiting_committed_reader_wakes_when_the_marker_is_committed(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("woken")
    write(cluster, topic, lambda log: produce(log, 1))
    await committed(cluster, topic)
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000, isolation=COMMITTED)
    await until(lambda: parked(cluster) == 1)
    write(cluster, topic, lambda log: append_some(log, 1))
    await committed(cluster, topic)
    assert not waiting.done()
    disk.hold()
    write(cluster, topic, lambda log: end(log, 1, commit=True))
    await cluster.list_offset(topic, -1)
    assert not waiting.done()
    disk.release()
    (answer,) = fetched(await waiting)
    assert (answer.last_stable_offset, len(answer.ranges)) == (3, 1)


async def test_the_latest_offset_is_the_last_stable_one_for_committed_readers(cluster: StorageCluster) -> None:
    topic = await cluster.topic("listed")
    write(cluster, topic, lambda log: append_some(log, 1, timestamp=10))
    write(cluster, topic, lambda log: produce(log, 1))
    await committed(cluster, topic)
    assert await latest(cluster, topic, 0) == 2
    assert await latest(cluster, topic, COMMITTED) == 1
    assert await latest(cluster, topic, COMMITTED, timestamp=500) == -1
    assert await latest(cluster, topic, 0, timestamp=500) == 1


async def test_transactions_outlive_a_restart(cluster: StorageCluster) -> None:
    topic = await cluster.topic("reopened")
    write(cluster, topic, lambda log: produce(log, 1))
    write(cluster, topic, lambda log: end(log, 1, commit=False))
    write(cluster, topic, lambda log: produce(log, 1))
    await committed(cluster, topic)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    answer = await read(cluster, topic)
    assert (answer.last_stable_offset, answer.aborted) == (2, ((1, 0),))


async def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(cluster: StorageCluster) -> None:
    topic = await cluster.topic("mixed")
    write(cluster, topic, lambda log: produce(log, 1))
    await committed(cluster, topic)
    refused = await cluster.append(topic, batch(b"x", producer=(1, 0, 1)))
    assert refused.error == ErrorCode.INVALID_TXN_STATE
    assert (await cluster.append(topic, batch(b"x", producer=(2, 0, 0)))).error == 0
