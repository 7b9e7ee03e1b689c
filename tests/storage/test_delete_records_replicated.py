"""DeleteRecords of partitions with followers: answered when nobody who may be elected would bring the records back."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from libs.rpc.contracts.storage import DeletedRecords
from libs.wire.errors import ErrorCode
from services.storage.replication.follower import log_starts
from tests.storage.cluster import StorageCluster, batch, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_state, replicated_topic, show
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until

REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


@pytest.fixture
async def two(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


async def fill(node: StorageCluster, topic: bytes, batches: int = 10) -> None:
    for _ in range(batches):
        assert (await node.append(topic, batch(b"x"))).error == 0


async def test_every_follower_has_the_start_before_the_answer(three: Nodes) -> None:
    topic = await three.topic("cut", leader=1)
    await fill(three[1], topic)
    for offset in (1, 4, 7, -1):
        expected = offset if offset >= 0 else 10
        assert await three[1].delete_records(topic, offset) == DeletedRecords(0, expected)
        assert [three.home(node_id, topic).log_start_offset for node_id in (1, 2, 3)] == [expected] * 3


async def test_another_leader_and_a_restart_keep_the_start(three: Nodes) -> None:
    topic = await three.topic("kept", leader=1)
    await fill(three[1], topic)
    assert await three[1].delete_records(topic, 6) == DeletedRecords(0, 6)
    await three[1].stop()
    await three[2].stop()
    await three[2].start()
    await three.lead(topic, 2, isr=(2, 3))
    assert (await three[2].list_offset(topic, -2)).offset == 6
    assert await three[2].delete_records(topic, 2) == DeletedRecords(0, 6)


async def test_a_follower_that_is_down_and_in_sync_is_waited_for(three: Nodes) -> None:
    topic = await three.topic("down", leader=1)
    await fill(three[1], topic)
    await three.alike(topic)
    await three[3].stop()
    answer = await three[1].delete_records(topic, 5, timeout_ms=200)
    assert (answer.error, answer.low_watermark < 5) == (REQUEST_TIMED_OUT, True)
    assert three.home(1, topic).log_start_offset == 5
    await three[3].start()
    await three.elect(topic, 1)
    assert await three[1].delete_records(topic, 5) == DeletedRecords(0, 5)
    assert three.home(3, topic).log_start_offset == 5


async def test_a_follower_whose_disk_has_not_got_it_yet_is_waited_for(three: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await three.topic("slow", leader=1)
    await fill(three[1], topic)
    await three.alike(topic)
    slow, may_go = three[2].fs.rename, threading.Event()

    def rename(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS):
            may_go.wait()
        slow(source, target)

    monkeypatch.setattr(three[2].fs, "rename", rename)
    deletion = asyncio.create_task(three[1].delete_records(topic, 5))
    try:
        await until(lambda: three.home(2, topic).log.next_start_offset == 5)
        await until(lambda: three.home(3, topic).log_start_offset == 5)
        assert not deletion.done()
    finally:
        may_go.set()
    assert await deletion == DeletedRecords(0, 5)
    assert three.home(2, topic).log_start_offset == 5


async def test_a_follower_whose_disk_refused_it_once_asks_it_again(three: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_starts, "RETRY_S", 0.01)
    topic = await three.topic("refused", leader=1)
    await fill(three[1], topic)
    await three.alike(topic)
    rename, refused = three[2].fs.rename, []

    def refuse_once(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS) and not refused:
            refused.append(target)
            raise OSError(errno.EIO, "refused")
        rename(source, target)

    monkeypatch.setattr(three[2].fs, "rename", refuse_once)
    assert await three[1].delete_records(topic, 5) == DeletedRecords(0, 5)
    assert refused
    assert three.home(2, topic).log_start_offset == 5


async def test_a_replica_that_leaves_the_isr_is_no_longer_waited_for(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "left", [1, 2], durability="replicated")
    await two.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await two.pull(at(topic, 2))
    deletion = asyncio.create_task(cluster.delete_records(topic, 1))
    await until(lambda: partition_of(cluster, topic).log_start_offset == 1)
    assert not deletion.done()
    await show(cluster, topic, replicated_state(cluster, [1], partition_epoch=1))
    assert await deletion == DeletedRecords(0, 1)


async def test_a_deposed_leader_does_not_say_that_it_is_done(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "resigned", [1, 2], durability="replicated")
    await two.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await two.pull(at(topic, 2))
    deletion = asyncio.create_task(cluster.delete_records(topic, 1))
    await until(lambda: partition_of(cluster, topic).log_start_offset == 1)
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=1, partition_epoch=1), leader=2)
    assert (await deletion).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_timeout_of_zero_waits_for_no_follower(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "hasty", [1, 2], durability="replicated")
    await two.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await two.pull(at(topic, 2))
    assert await cluster.delete_records(topic, 1, timeout_ms=0) == DeletedRecords(REQUEST_TIMED_OUT, 0)
