"""Consumers that name their rack: leaders name followers there, and those show what they know to be committed (KIP-392)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster.configs.broker_table import RACK_AWARE
from libs.rpc.contracts.storage import FETCH, Fetch, Fetched, FetchPartition, FetchReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until

RACKS = {1: "a", 2: "b", 3: "c"}


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        for node_id, node in running.by_id.items():
            node.config = replace(node.config, rack=RACKS[node_id], broker_configs=(f"replica.selector.class={RACK_AWARE}",))
            await node.stop()
            await node.start()
        yield running


async def ask(
    running: Nodes, node_id: int, topic: bytes, offset: int, *, rack: str = "b", as_follower: bool = False, wait_ms: int = 0,
    epoch: int = -1,
) -> Fetched:  # fmt: skip
    client = running[node_id].client
    assert client is not None
    wanted = FetchPartition(topic, 0, offset, 1 << 20, epoch)
    fetch = Fetch(wait_ms, 1, 1 << 20, 0, (wanted,), inline=True, rack=rack, as_follower=as_follower)
    return unpack(FetchReply, (await client.call(FETCH, fetch, timeout_s=60)).body).partitions[0]


async def test_a_leader_names_the_in_sync_follower_in_the_readers_rack(three: Nodes) -> None:
    topic = await three.topic("near", leader=1)
    await three[1].append(topic, batch(b"a"))
    await three.alike(topic)
    named = await ask(three, 1, topic, 0, wait_ms=60_000)
    assert (named.error, named.preferred_read_replica, named.high_watermark, named.inline_length) == (0, 2, 1, 0)
    for rack in ("a", "d", ""):
        near = await ask(three, 1, topic, 0, rack=rack)
        assert (near.error, near.preferred_read_replica) == (0, -1)
        assert near.inline_length
    assert (await ask(three, 1, topic, 9)).error == ErrorCode.OFFSET_OUT_OF_RANGE, "no follower has that either"


async def test_a_follower_outside_the_isr_is_not_named(three: Nodes) -> None:
    topic = await three.topic("out", leader=1, min_insync_replicas="1")
    await three.lead(topic, 1, isr=(1, 3))
    await three[1].append(topic, batch(b"a"))
    assert (await ask(three, 1, topic, 0)).preferred_read_replica == -1
    await until(lambda: three.home(3, topic).high_watermark == 1)
    assert (await ask(three, 1, topic, 0, rack="c")).preferred_read_replica == 3


async def test_a_follower_answers_committed_records_to_fetches_that_name_it_as_follower(three: Nodes) -> None:
    topic = await three.topic("read", leader=1)
    sent = batch(b"a")
    await three[1].append(topic, sent)
    await three.alike(topic)
    read = await ask(three, 2, topic, 0, as_follower=True)
    assert (read.error, read.high_watermark, read.last_stable_offset, read.inline_length) == (0, 1, 1, len(sent))
    assert (read.preferred_read_replica, read.log_start_offset) == (-1, 0)
    refused = await ask(three, 2, topic, 0)
    assert (refused.error, refused.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


async def test_a_read_from_a_follower_waits_for_what_is_committed_next(three: Nodes) -> None:
    topic = await three.topic("wait", leader=1)
    await three[1].append(topic, batch(b"a"))
    await three.alike(topic)
    reading = asyncio.ensure_future(ask(three, 2, topic, 1, as_follower=True, wait_ms=30_000))
    node = three[2].node
    assert node is not None
    await until(lambda: node.opened.fetches.parked == 1)
    await three[1].append(topic, batch(b"b"))
    async with asyncio.timeout(60):
        read = await reading
    assert (read.error, read.high_watermark) == (0, 2)
    assert read.inline_length


async def test_an_offset_that_a_follower_has_not_heard_to_be_committed_is_not_available_and_one_beyond_its_end_out_of_range(
    three: Nodes,
) -> None:
    topic = await three.topic("offsets", leader=1)
    for value in (b"a", b"b"):
        await three[1].append(topic, batch(value))
    await three.alike(topic)
    three.home(2, topic).replica.high_watermark = 1
    assert (await ask(three, 2, topic, 2, as_follower=True)).error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await ask(three, 2, topic, 1, as_follower=True)).error == 0
    assert (await ask(three, 2, topic, 3, as_follower=True)).error == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_follower_judges_the_readers_epoch_as_a_leader_does(three: Nodes) -> None:
    topic = await three.topic("epochs", leader=3)
    await three.lead(topic, 1)
    await three[1].append(topic, batch(b"a"))
    await three.alike(topic)
    errors = [(await ask(three, 2, topic, 0, as_follower=True, epoch=epoch)).error for epoch in (0, 1, 2)]
    assert errors == [ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


async def test_without_a_selector_all_read_from_leaders(tmp_path: Path, short_dir: Path) -> None:
    async with nodes(tmp_path, short_dir, (1, 2)) as running:
        for node_id, node in running.by_id.items():
            node.config = replace(node.config, rack=RACKS[node_id])
            await node.stop()
            await node.start()
        topic = await running.topic("plain", leader=1)
        await running[1].append(topic, batch(b"a"))
        await running.alike(topic)
        assert (await ask(running, 1, topic, 0)).preferred_read_replica == -1
