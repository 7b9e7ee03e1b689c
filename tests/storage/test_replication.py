"""Three storage nodes copy from each other."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.wire.record_batches.batches import iter_batches
from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until


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


@pytest.mark.parametrize("seed", [*range(4), 162])
async def test_whichever_node_is_elected_whenever_all_logs_become_the_last_leaders(three: Nodes, seed: int) -> None:
    """Also by unclean elections, with nodes that stop and come back, and logs that are shortened."""
    random = Random(seed)
    topic = await three.topic("any", leader=1, min_insync_replicas="1")
    up, leader, acked = {1, 2, 3}, 1, 0
    for step in range(60):
        match random.randrange(8):
            case 0 if len(up) > 1:
                gone = random.choice(sorted(up - {leader}))
                up.discard(gone)
                await three[gone].stop()
                if random.random() < 0.5:
                    (Path(three[gone].config.directories[0]) / ".kafka_cleanshutdown").unlink(missing_ok=True)
            case 1 if len(up) < 3:
                back = random.choice(sorted({1, 2, 3} - up))
                up.add(back)
                await three[back].start()
            case 2 | 3:
                leader = random.choice(sorted(up))
                await three.lead(topic, leader, isr=(leader,) if random.random() < 0.3 else tuple(sorted(up)))
            case 4:
                await three[leader].delete_records(topic, random.randrange(acked + 1), timeout_ms=100)
            case _:
                content = [b"%d" % step] * random.randrange(1, 20)
                answer = await three[leader].append(topic, batch(*content), acks=random.choice((1, 1, -1)), timeout_ms=50)
                acked = max(acked, answer.base_offset)
    for node_id in sorted({1, 2, 3} - up):
        await three[node_id].start()
    await three.lead(topic, leader, isr=(1, 2, 3))
    await three[leader].append(topic, batch(b"the end"), acks=1)

    def agreed() -> bool:
        ends = {(home.log_end_offset, home.high_watermark) for home in (three.home(one, topic) for one in (1, 2, 3))}
        return len(ends) == 1 and all(end == high_watermark for end, high_watermark in ends)

    await until(agreed)
    first = max(three.home(node_id, topic).log.segments[0].base_offset for node_id in (1, 2, 3))
    contents = {
        b"".join(bytes(one.view) for one in iter_batches(three.content(node_id, topic)) if one.header.base_offset >= first)
        for node_id in (1, 2, 3)
    }
    assert len(contents) == 1


async def test_followers_come_to_an_end_by_pulls_that_ask_for_next_to_nothing(three: Nodes) -> None:
    """As in Kafka, a whole batch is sent at least, whatever replica.fetch.max.bytes and its like say."""
    least = {"replica.fetch.max.bytes": "0", "replica.fetch.response.max.bytes": "0"}
    await three[1].write(keys.config("broker", ""), encode(ConfigOverrides(least)))
    topics = [await three.topic(name, leader=leader) for name, leader in (("one", 1), ("two", 1), ("three", 2))]
    for number in range(5):
        for topic, leader in zip(topics, (1, 1, 2), strict=True):
            assert (await three[leader].append(topic, batch(b"%d" % number))).error == 0
    for topic in topics:
        await three.alike(topic)


async def test_followers_come_to_an_end_though_min_bytes_are_never_reached(three: Nodes) -> None:
    never = {"replica.fetch.min.bytes": str(1 << 30), "replica.fetch.wait.max.ms": "20"}
    await three[1].write(keys.config("broker", ""), encode(ConfigOverrides(never)))
    topic = await three.topic("least", leader=1)
    assert (await three[1].append(topic, batch(b"a"))).error == 0
    await three.alike(topic)
