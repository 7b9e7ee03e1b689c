"""When rounds run: at once for whoever waits, paced when nobody does, and as flush.messages says for `replicated` topics."""

import asyncio

from tests.storage.cluster import StorageCluster, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


def durable(cluster: StorageCluster, topic: bytes) -> int:
    assert cluster.node is not None
    return cluster.node.partitions.by_key[topic, 0].log.durable_offset


async def test_rounds_that_nobody_waits_for_keep_their_distance(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("paced")
    await cluster.append(topic, batch(b"warm"))
    assert cluster.node is not None
    (only,) = cluster.node.opened.disks.all
    only.sync.states.paced_until = asyncio.get_running_loop().time() + 3600
    begun = disk.syncs_begun
    for _ in range(20):
        await cluster.append(topic, batch(b"x"), acks=1)
    assert disk.syncs_begun == begun
    # Somebody waits: a reader at the end of the log, or an acks=all.
    waiting = cluster.fetching(topic, 1, max_wait_ms=8000)
    await waiting
    assert disk.syncs_begun > begun
    only.sync.states.paced_until = asyncio.get_running_loop().time() + 3600
    assert (await cluster.append(topic, batch(b"y"))).error == 0


async def test_flush_messages_syncs_a_replicated_topic(cluster: StorageCluster) -> None:
    eager = await cluster.topic("eager", durability="replicated", flush_messages="3")
    for number in range(4):
        await cluster.append(eager, batch(b"%d" % number), acks=1)
    await until(lambda: durable(cluster, eager) >= 3)


async def test_flush_ms_syncs_a_replicated_topic(cluster: StorageCluster) -> None:
    timely = await cluster.topic("timely", durability="replicated", flush_ms="10")
    await cluster.append(timely, batch(b"x"), acks=1)
    await until(lambda: durable(cluster, timely) == 1)


async def test_the_last_of_a_replicated_topic_is_synced_at_the_stop(cluster: StorageCluster) -> None:
    lazy = await cluster.topic("lazy", durability="replicated")
    await cluster.append(lazy, batch(b"x"), acks=1)
    assert cluster.node is not None
    log = cluster.node.partitions.by_key[lazy, 0].log
    assert log.durable_offset == 0
    await cluster.stop()
    assert log.durable_offset == 1
