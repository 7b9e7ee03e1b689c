"""Who was replaced and has not heard so lacks what its successor took: it may tell no producer that it is out of order, and no
consumer that it reads past the end."""

import asyncio

import pytest

from libs.cluster import keys
from libs.rpc.contracts.storage import FETCH, Fetch, FetchPartition
from libs.wire.errors import ErrorCode
from services.storage.partition import leader_checks
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster, appended, batch, fetched
from tests.storage.held_reads import Cut, HeldReads, cut_off, unanswered
from tests.support.polling import until

NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER_SEQUENCE_NUMBER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
STANDS_STILL_S = 3600.0


@pytest.fixture
async def reads(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> HeldReads:
    return HeldReads(cluster.store, monkeypatch)


async def led(cluster: StorageCluster, *, epoch: int = 1) -> bytes:
    """A topic that has one batch of producer 9, in its epoch 3, which ends with sequence 0."""
    topic = await cluster.topic("t", epoch=epoch)
    assert (await cluster.append(topic, batch(b"a", producer=(9, 3, 0)))).error == 0
    return topic


def stand_still(cluster: StorageCluster) -> None:
    """The node hears nothing of the store from here on."""
    cluster.store.watch_delay_s = STANDS_STILL_S


@pytest.mark.parametrize("producer", [(9, 3, 2), (9, 2, 1), (9, 4, 1)], ids=["a gap", "an old epoch", "amid a new epoch"])
async def test_one_that_was_replaced_unawares_does_not_refuse_a_sequence(
    cluster: StorageCluster, producer: tuple[int, int, int]
) -> None:
    topic = await led(cluster)
    stand_still(cluster)
    await cluster.state(topic, epoch=2, leader=7, incarnation=1)
    answer = await cluster.append(topic, batch(b"c", producer=producer))
    assert (answer.error, answer.leader, answer.leader_epoch) == (NOT_LEADER_OR_FOLLOWER, 7, 2)
    assert not answer.in_log


async def test_one_that_leads_in_another_epoch_does_not_refuse_a_sequence(cluster: StorageCluster) -> None:
    """Another one may have led in between."""
    topic = await led(cluster)
    stand_still(cluster)
    await cluster.state(topic, epoch=3)
    answer = await cluster.append(topic, batch(b"c", producer=(9, 3, 2)))
    assert (answer.error, answer.leader, answer.leader_epoch) == (NOT_LEADER_OR_FOLLOWER, -1, 3)


async def test_the_partition_of_a_topic_that_was_deleted_refuses_no_sequence(cluster: StorageCluster) -> None:
    topic = await led(cluster)
    stand_still(cluster)
    await cluster.write(keys.partition(topic, 0), None)
    assert (await cluster.append(topic, batch(b"c", producer=(9, 3, 2)))).error == NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("cut", [cut_off, unanswered])
async def test_one_that_is_cut_off_from_the_store_does_not_refuse_a_sequence(
    cluster: StorageCluster,
    reads: HeldReads,
    monkeypatch: pytest.MonkeyPatch,
    cut: Cut,
) -> None:
    topic = await led(cluster, epoch=1)
    monkeypatch.setattr(leader_checks, "STORE_S_MAX", 0.05)
    cut(cluster, reads)
    answer = await cluster.append(topic, batch(b"c", producer=(9, 3, 2)))
    assert (answer.error, answer.leader, answer.leader_epoch) == (NOT_LEADER_OR_FOLLOWER, -1, 1)
    # What is in sequence is taken as ever: an outage of the store is not a death.
    assert (await cluster.append(topic, batch(b"b", producer=(9, 3, 1)))).base_offset == 1


async def test_the_leader_refuses_as_kafka_does_and_asks_the_store_for_nothing_else(
    cluster: StorageCluster, reads: HeldReads
) -> None:
    topic = await led(cluster)
    assert (await cluster.append(topic, batch(b"b", producer=(9, 3, 1)))).base_offset == 1
    assert (await cluster.append(topic, batch(b"b", producer=(9, 3, 1)))).base_offset == 1  # a duplicate
    assert (await cluster.append(topic, batch(b"x"))).base_offset == 2
    assert reads.served == 0
    gap = await cluster.append(topic, batch(b"d", producer=(9, 3, 3)))
    old = await cluster.append(topic, batch(b"d", producer=(9, 2, 0)))
    assert (gap.error, gap.log_start_offset, gap.message) == (
        OUT_OF_ORDER_SEQUENCE_NUMBER,
        0,
        "producer 9 sends sequence 3, expected 2",
    )
    assert old.error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert reads.served == 2


async def test_one_that_was_replaced_unawares_does_not_say_that_a_reader_is_past_the_end(
    cluster: StorageCluster, reads: HeldReads
) -> None:
    topic = await led(cluster)
    other = await cluster.topic("other")
    assert (await cluster.append(other, batch(b"x"))).error == 0
    stand_still(cluster)
    await cluster.state(topic, epoch=2, leader=7, incarnation=1)
    answer = await cluster.fetch(topic, 2)
    assert (answer.error, answer.leader, answer.leader_epoch) == (NOT_LEADER_OR_FOLLOWER, 7, 2)
    assert (await cluster.fetch(other, 2)).error == OFFSET_OUT_OF_RANGE
    assert reads.served == 2


async def test_a_fetch_of_several_partitions_past_their_ends_is_refused_for_each(
    cluster: StorageCluster, reads: HeldReads
) -> None:
    topics = [await cluster.topic(name, epoch=1) for name in ("moved", "whole", "ours")]
    for topic in topics:
        assert (await cluster.append(topic, batch(b"x"))).error == 0
    stand_still(cluster)
    await cluster.state(topics[0], epoch=2, leader=7, incarnation=1)
    assert cluster.client is not None
    offsets = zip(topics, (5, 0, 5), strict=True)
    wanted = tuple(FetchPartition(topic, 0, offset, 1 << 20) for topic, offset in offsets)
    answer = fetched(await cluster.client.call(FETCH, Fetch(9000, 1, 1 << 20, 0, wanted), timeout_s=WAIT_S))
    assert [(part.error, part.leader) for part in answer] == [(NOT_LEADER_OR_FOLLOWER, 7), (0, -1), (OFFSET_OUT_OF_RANGE, -1)]
    assert answer[1].ranges


async def test_a_fetch_before_the_start_is_refused_at_once(cluster: StorageCluster, reads: HeldReads) -> None:
    """A log begins no earlier wherever it is led."""
    topic = await led(cluster)
    assert (await cluster.delete_records(topic, 1)).error == 0
    assert (await cluster.fetch(topic, 0)).error == OFFSET_OUT_OF_RANGE
    assert reads.served == 0


async def test_others_do_not_wait_while_the_store_is_asked(cluster: StorageCluster, reads: HeldReads) -> None:
    topic = await led(cluster)
    other = await cluster.topic("other")
    reads.hold()
    refused = cluster.send([(topic, 0, batch(b"c", producer=(9, 3, 2)))])
    await until(lambda: reads.served == 1)
    assert (await cluster.append(topic, batch(b"x"))).base_offset == 1
    assert (await cluster.append(other, batch(b"x"))).base_offset == 0
    assert not refused.done()
    reads.release()
    assert appended(await refused)[0].error == OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_check_that_comes_amid_a_store_read_waits_for_the_next_one(cluster: StorageCluster, reads: HeldReads) -> None:
    """The first was served before the election. Those that came meanwhile share one."""
    topic = await led(cluster)
    stand_still(cluster)
    reads.hold()
    first = cluster.send([(topic, 0, batch(b"c", producer=(9, 3, 2)))])
    await until(lambda: reads.served == 1)
    await cluster.state(topic, epoch=2, leader=7, incarnation=1)
    later = [cluster.send([(topic, 0, batch(b"c", producer=(9, 3, sequence)))]) for sequence in (3, 4, 5)]
    assert (await cluster.append(topic, batch(b"x"), acks=1)).error == 0  # so they have arrived
    reads.release()
    assert appended(await first)[0].error == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [appended(await append)[0].error for append in later] == [NOT_LEADER_OR_FOLLOWER] * 3
    assert reads.served == 2


async def test_a_node_stops_while_it_asks(cluster: StorageCluster, reads: HeldReads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_checks, "STORE_S_MAX", 0.05)
    topic = await led(cluster)
    reads.hold()
    refused = cluster.send([(topic, 0, batch(b"c", producer=(9, 3, 2)))])
    await until(lambda: reads.served == 1)
    node, cluster.node = cluster.node, None
    assert node is not None
    async with asyncio.timeout(WAIT_S):
        await node.stop()
    assert appended(await refused)[0].error == NOT_LEADER_OR_FOLLOWER
    assert (await cluster.store.get(keys.member("storage", NODE_ID))) is None
