"""The producers that a leader knows of, which DescribeProducers asks for."""

import pytest

from libs.commitlog.producers.producer_state import ProducerEntry
from libs.rpc.contracts.storage import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersReply,
    PartitionProducers,
)
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.replication.leader import active_producers
from tests.storage.cluster import WAIT_S, StorageCluster, batch, partition_of
from tests.support.polling import until

NOW_MS = 1_700_000_000_000


async def producers(cluster: StorageCluster, topic: bytes) -> PartitionProducers:
    assert cluster.client is not None
    reply = await cluster.client.call(DESCRIBE_PRODUCERS, DescribeProducers(((topic, 0),)), timeout_s=WAIT_S)
    return unpack(DescribeProducersReply, reply.body).partitions[0]


async def test_a_leader_tells_of_each_producer_its_last_batch(cluster: StorageCluster) -> None:
    topic = await cluster.topic("written")
    await cluster.append(topic, batch(b"a", b"b", producer=(7, 2, 0)))
    await cluster.append(topic, batch(b"c", producer=(7, 2, 2)))
    await cluster.append(topic, batch(b"nobody's"))
    assert await producers(cluster, topic) == PartitionProducers(0, (ActiveProducer(7, 2, 2, NOW_MS, -1, -1),))


async def test_an_open_transaction_is_told_and_so_is_a_producer_of_which_only_a_marker_is_left(cluster: StorageCluster) -> None:
    topic = await cluster.topic("open")
    entries = partition_of(cluster, topic).log.producers.entries
    entries[8] = ProducerEntry(3, (), coordinator_epoch=5, last_timestamp=NOW_MS, transaction_first_offset=40)
    assert await producers(cluster, topic) == PartitionProducers(0, (ActiveProducer(8, 3, -1, NOW_MS, 5, 40),))


async def test_an_answer_is_bounded_and_begins_with_open_transactions(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_producers, "PRODUCERS_MAX", 3)
    monkeypatch.setattr(active_producers, "PRODUCERS_MIN", 1)
    topic = await cluster.topic("many")
    state = partition_of(cluster, topic).log.producers
    for producer_id in range(10):
        state.entries[producer_id] = ProducerEntry(0, (), -1, NOW_MS, 5 if producer_id == 9 else -1)
    state.transactions.begin(9, 5)
    assert [producer.producer_id for producer in (await producers(cluster, topic)).producers] == [9, 0, 1]


async def test_only_the_leader_answers(cluster: StorageCluster) -> None:
    topic = await cluster.topic("moved", epoch=3)
    await cluster.state(topic, epoch=4, leader=7, incarnation=1)
    await until(lambda: not partition_of(cluster, topic).leading)
    assert (await producers(cluster, topic)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await producers(cluster, b"?" * 16)).error == ErrorCode.UNKNOWN_TOPIC_ID
