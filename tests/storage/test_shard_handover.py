"""Shards as a process owns them, on a real storage node: the image gives and takes them, its log keeps what they say."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import STORAGE, Member
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.shard_hashing import java_hash, shard_of
from libs.coordinator.core.states import State
from libs.rpc.client.rpc_client import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.storage_nodes import StorageNodes
from tests.coordinator.shelf import Add, Put, Read
from tests.coordinator.submissions import submit_to_shard
from tests.storage.cluster import NODE_ID, StorageCluster, fetched
from tests.storage.held_disk import HeldDisk
from tests.storage.shard_coordinator import TOPIC, Coordinator
from tests.support.polling import until

SHARDS = 2


Begin = Callable[[int], Awaitable[Coordinator]]


@pytest.fixture
async def begin(cluster: StorageCluster) -> AsyncIterator[Begin]:
    running: list[Coordinator] = []

    async def start(node_id: int) -> Coordinator:
        running.append(Coordinator(cluster, node_id))
        return await running[-1].start()

    yield start
    for one in running:
        await one.close()


@pytest.fixture
async def topic(cluster: StorageCluster) -> bytes:
    return await cluster.topic(TOPIC, partitions=SHARDS, cleanup_policy="compact")


async def test_a_shard_that_the_image_gives_is_claimed_loaded_and_served(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    one = await begin(1)
    assert await one.said(0, Read("a")) == 16
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    assert await one.said(0, Put("a", 5)) == "5"
    assert await one.said(1, Read("a")) == 16
    response = await cluster.fetching(topic, 0, inline=True)
    assert fetched(response)[0].high_watermark == 1
    assert b"[5, -1]" in bytes(response.payload)


async def test_another_owner_goes_on_where_the_former_was_and_the_former_is_refused(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    one, two = await begin(1), await begin(2)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    for _ in range(20):
        await one.said(0, Add("a", 1))
    stale = one.shards.owned[0]
    await one.follower.close()  # it hears of nothing any more
    await cluster.give(topic, 0, two.owner, 2)
    await two.serves(0)
    assert await two.said(0, Add("a", 1)) == "21"
    assert await one.said(0, Add("a", 100)) == 16
    assert stale.state is State.CLOSED
    assert await two.said(0, Read("a")) == "21"


async def test_a_shard_goes_on_through_a_new_leader_epoch(cluster: StorageCluster, topic: bytes, begin: Begin) -> None:
    one = await begin(1)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    await one.said(0, Put("a", 5))
    driver = one.shards.owned[0]
    await cluster.give(topic, 0, one.owner, 1, leader_epoch=1)
    await until(lambda: driver.shard.fence.leader_epoch == 1 and driver.state is State.SERVING)
    assert one.shards.owned[0] is driver, "it kept its tables"
    assert await one.said(0, Add("a", 1)) == "6"


async def test_a_shard_lives_through_a_restart_of_its_storage_node(cluster: StorageCluster, topic: bytes, begin: Begin) -> None:
    one = await begin(1)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    await one.said(0, Put("a", 5))
    await cluster.stop()
    assert await one.said(0, Put("a", 6)) in (14, 16)
    await cluster.start()
    await cluster.give(topic, 0, one.owner, 1, leader_epoch=1)
    await until(lambda: one.shards.owned[0].shard.fence.leader_epoch == 1)
    await one.serves(0)
    assert await one.said(0, Read("a")) == "5"
    assert await one.said(0, Put("a", 7)) == "7"


async def test_nothing_is_answered_before_the_disk_has_it(
    cluster: StorageCluster, topic: bytes, begin: Begin, disk: HeldDisk
) -> None:
    one = await begin(1)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    disk.hold()
    written, read = submit_to_shard(one.shards, 0, Put("a", 5)), submit_to_shard(one.shards, 0, Read("a"))
    await one.said(1, Read("a"))
    await until(lambda: cluster.node is not None and cluster.node.partitions.by_key[topic, 0].log_end_offset == 1)
    assert not written.done()
    assert not read.done()
    disk.release()
    assert [(await answer).reply for answer in (written, read)] == ["5", "5"]


async def test_a_successor_waits_for_what_its_predecessor_has_under_way(
    cluster: StorageCluster, topic: bytes, begin: Begin, disk: HeldDisk
) -> None:
    one, two = await begin(1), await begin(2)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    disk.hold()
    written = submit_to_shard(one.shards, 0, Put("a", 5))
    await until(lambda: cluster.node is not None and cluster.node.partitions.by_key[topic, 0].log_end_offset == 1)
    await cluster.give(topic, 0, two.owner, 2)
    await until(lambda: 0 in two.shards.owned and two.shards.owned[0].state is State.LOADING)
    assert await two.said(0, Read("a")) == 14
    disk.release()
    await two.serves(0)
    assert (await written).reply == "5", "the former owner unloads, and answers what it has under way"
    assert await two.said(0, Read("a")) == "5"


async def test_a_shard_that_is_taken_away_and_given_back_is_loaded_anew(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    one = await begin(1)
    await cluster.give(topic, 0, one.owner, 1)
    await one.serves(0)
    await one.said(0, Put("a", 5))
    former = one.shards.owned[0]
    await cluster.give(topic, 0, None, 2)
    await until(lambda: 0 not in one.shards.owned)
    assert await one.said(0, Read("a")) == 16
    await cluster.give(topic, 0, one.owner, 3)
    await one.serves(0)
    assert one.shards.owned[0] is not former
    assert await one.said(0, Read("a")) == "5"


async def test_a_restarted_process_is_not_the_owner_that_the_image_names(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    one = await begin(1)
    await cluster.give(topic, 0, Owner(1, 6), 1)
    await cluster.give(topic, 1, one.owner, 1)
    await one.serves(1)
    assert 0 not in one.shards.owned


async def test_names_are_sent_to_the_shard_that_kafka_would_send_them_to(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "polygenelubricants", "\U0001f600")] == [
        *(0, 97, 99162322, -(1 << 31), 1772899)
    ]
    assert shard_of("polygenelubricants", 50) == 0
    one = await begin(1)
    for index in range(SHARDS):
        await cluster.give(topic, index, one.owner, 1)
        await one.serves(index)
    for name in ("a", "b", "groups"):
        assert (await submit_to_shard(one.shards, shard_of(name, one.shards.count), Put(name, 1))).reply == "1"
        assert await one.said(shard_of(name, SHARDS), Read(name)) == "1"
        assert await one.said(1 - shard_of(name, SHARDS), Read(name)) == "nothing"


async def test_without_its_topic_there_is_no_coordinator(cluster: StorageCluster, begin: Begin) -> None:
    one = await begin(1)
    assert one.shards.count == 0
    assert await one.said(0, Read("a")) == 16


async def test_a_storage_node_that_moves_is_called_at_its_new_address(cluster: StorageCluster) -> None:
    hello = Hello("group_coordinator", 1, 1, "test", 1, "test-cluster")
    nodes = StorageNodes(lambda: hello, "this-host", SocketTransport())
    follower = ImageFollower(cluster.store)
    await follower.start()
    nodes.follow(follower.image)
    first = nodes.client(NODE_ID)
    assert first is not None
    member = Member(STORAGE, NODE_ID, 99, "another-host", tcp_address="tcp:127.0.0.1:1")
    await cluster.write(keys.member(STORAGE, NODE_ID), encode(member))
    await until(lambda: follower.image.members(STORAGE)[NODE_ID].incarnation == 99)
    nodes.follow(follower.image)
    second = nodes.client(NODE_ID)
    assert second is not None
    assert second.address == "tcp:127.0.0.1:1"
    assert nodes.client(5) is None
    await follower.close()
    await nodes.close()


async def test_a_shard_that_comes_while_the_clock_is_ahead_keeps_what_has_not_expired(
    cluster: StorageCluster, topic: bytes, begin: Begin
) -> None:
    """One believed time for all shards of a process: it began before somebody set the clock."""
    coordinator = await begin(1)
    await cluster.give(topic, 0, coordinator.owner, 1)
    await coordinator.serves(0)
    in_an_hour = coordinator.clock.wall_ms() + 3_600_000
    assert await coordinator.said(0, Put("a", 1, in_an_hour)) == "1"
    await cluster.give(topic, 0, None, 2)
    await until(lambda: 0 not in coordinator.shards.owned)
    coordinator.clock.ahead_ms = 86_400_000
    await cluster.give(topic, 0, coordinator.owner, 3)
    await coordinator.serves(0)
    assert await coordinator.said(0, Read("a")) == "1"
