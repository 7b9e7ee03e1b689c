"""Topics deleted and made again under the same name, faster than the disk follows."""

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from tests.storage.cluster import StorageCluster, batch

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
