"""Topics that are deleted, or made again, while followers of theirs are down."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


def directories(three: Nodes, node_id: int) -> set[str]:
    return {path.name for path in Path(three[node_id].config.directories[0]).iterdir() if path.is_dir()}


async def delete(three: Nodes, name: str, topic_id: bytes) -> None:
    await three[1].write(keys.partition(topic_id, 0), None)
    await three[1].write(keys.topic(name), None)


async def test_a_follower_sets_aside_what_was_deleted_while_it_was_down(three: Nodes) -> None:
    topic = await three.topic("t", leader=1)
    await three[1].append(topic, batch(b"gone"))
    await three.alike(topic)
    await three[3].stop()
    await delete(three, "t", topic)
    await three[3].start()
    assert directories(three, 3) == {f"t-0.{topic.hex()}-stray"}


async def test_a_follower_copies_a_topic_that_was_made_again_under_its_name_and_none_of_the_old_one(three: Nodes) -> None:
    old = await three.topic("t", leader=1)
    for _ in range(3):
        await three[1].append(old, batch(b"old"))
    await three.alike(old)
    await three[3].stop()
    await delete(three, "t", old)
    new = b"made again".ljust(16, b"\0")
    await three.elect(new, 1, isr=(1, 2))
    await three[1].write(keys.topic("t"), encode(Topic("t", new.hex(), 1)))
    await three[1].leads(new, 0, 0)
    assert (await three[1].append(new, batch(b"new"))).error == 0
    await three[3].start()
    await three.alike(new)
    assert directories(three, 3) == {"t-0", f"t-0.{old.hex()}-stray"}
    assert b"old" not in three.content(3, new)
