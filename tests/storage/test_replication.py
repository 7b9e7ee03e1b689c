"""Three storage nodes copy from each other."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


async def test_an_acknowledged_batch_is_on_every_replica(three: Nodes) -> None:
    topic = await three.topic("copied", leader=1)
    for number in range(10):
        assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
    assert {three.home(node_id, topic).log.durable_offset for node_id in (1, 2, 3)} == {10}
    await three.alike(topic)


async def test_another_leader_goes_on_where_the_first_one_ended(three: Nodes) -> None:
    topic = await three.topic("moved", leader=1)
    await three[1].append(topic, batch(b"a"))
    await three.lead(topic, 2)
    assert (await three[2].append(topic, batch(b"b"))).base_offset == 1
    await three.lead(topic, 3)
    assert (await three[3].append(topic, batch(b"c"))).base_offset == 2
    await three.alike(topic)
    assert three.home(1, topic).log.epochs.entries() == [(0, 0), (1, 1), (2, 2)]


async def test_an_idempotent_producer_is_recognised_by_the_next_leader(three: Nodes) -> None:
    """KAFKA-6003: followers take its sequences as they come, and know them when they lead."""
    topic = await three.topic("idempotent", leader=1)
    sent = batch(b"a", b"b", producer=(7, 0, 0))
    await three[1].append(topic, sent)
    await three.lead(topic, 2)
    assert (await three[2].append(topic, sent)).base_offset == 0
    assert (await three[2].append(topic, batch(b"c", producer=(7, 0, 2)))).base_offset == 2
    await three.alike(topic)
