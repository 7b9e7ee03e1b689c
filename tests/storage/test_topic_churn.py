"""Topics deleted and made again under the same name, faster than the disk follows."""

import asyncio

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from tests.storage.cluster import StorageCluster, appended, batch, eventually
from tests.storage.held_disk import HeldDisk

NAME = "churned"


async def test_a_topic_deleted_while_it_is_opened_makes_way_for_its_successor(cluster: StorageCluster) -> None:
    other = await cluster.topic("other")
    for number in range(40):
        topic_id = (1000 + number).to_bytes(16, "big")
        await cluster.state(topic_id, epoch=0)
        await cluster.write(keys.topic(NAME), encode(Topic(NAME, topic_id.hex(), 1)))
        await cluster.append(other, batch(b"keeps sync rounds going"))
        await cluster.write(keys.topic(NAME), None)
    last = await cluster.topic(NAME)
    assert (await cluster.append(last, batch(b"x"))).base_offset == 0
    # The directory works on: a sync round that stumbled over a renamed partition would have retired it.
    assert (await cluster.append(other, batch(b"x"))).base_offset == 40


async def test_a_partition_on_its_way_out_is_owed_no_sync_round(cluster: StorageCluster, disk: HeldDisk) -> None:
    """Its successor's configs bear its name. A round would look for a directory that is being renamed, and retire the disk."""
    topic = await cluster.topic("twice", durability="replicated")
    other = await cluster.topic("other")
    await cluster.append(topic, batch(b"x"), acks=1)
    assert cluster.node is not None
    node = cluster.node
    leaving = node._partitions.by_key[topic, 0]
    await eventually(lambda: not leaving.sync._running)
    disk.hold()
    begun = disk.syncs_begun
    waiting = cluster.send([(other, 0, batch(b"y"))])
    await eventually(lambda: disk.syncs_begun > begun)
    await cluster.write(keys.topic("twice"), None)
    await eventually(lambda: (topic, 0) not in node._partitions.by_key)
    await cluster.write(keys.config("topic", "twice"), None)
    await asyncio.sleep(0.05)
    owed = leaving in leaving.sync._owed
    disk.release()
    assert not owed
    assert appended(await waiting)[0].error == 0
