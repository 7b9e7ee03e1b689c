"""Answers from files need a descriptor for each. A shortage fails the one call, and nobody beside it."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from libs.rpc.messages.errors import RpcError
from libs.rpc.transport.socket_stream import SocketStream
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from services.storage.replication.follower.leader_files import LeaderFiles
from services.storage.replication.leader import pull_answers
from tests.storage.cluster import StorageCluster, batch, fetched, parked, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_topic
from tests.storage.three_nodes import Nodes
from tests.storage.three_nodes import nodes as running_nodes
from tests.support.polling import until


class Shortage:
    """`come` lets the next answer from a file find no descriptor. `met` is the number of those that did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.met = 0
        self._left = 0
        hold_files = SocketStream.hold_files

        def hold_if_there_are(stream: SocketStream, fds: Sequence[int]) -> list[int]:
            if fds and self._left:
                self._left -= 1
                self.met += 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return hold_files(stream, fds)

        monkeypatch.setattr(SocketStream, "hold_files", hold_if_there_are)

    def come(self) -> None:
        self._left = 1


@pytest.fixture
def shortage(monkeypatch: pytest.MonkeyPatch) -> Shortage:
    monkeypatch.setattr(pull_answers, "COPIED_BYTES_MAX", 0)
    return Shortage(monkeypatch)


@pytest.fixture
async def nodes(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with running_nodes(tmp_path, short_dir, ids=(1, 2)) as running:
        yield running


async def test_a_parked_pull_without_a_descriptor_fails_and_other_followers_hear_of_the_bytes(
    cluster: StorageCluster, shortage: Shortage
) -> None:
    two, three = await FakeFollower(cluster, 2).register(), await FakeFollower(cluster, 3).register()
    topic = await replicated_topic(cluster, "short")
    waiting = []
    for follower in (two, three):
        await follower.pull(at(topic, 0))
        waiting.append(asyncio.ensure_future(follower.pull(max_wait_ms=30_000)))
    assert cluster.node is not None
    pulls = cluster.node.opened.leader_side.pulls
    await until(lambda: pulls.parked == 2)
    shortage.come()
    await cluster.append(topic, batch(b"a"), acks=1)
    async with asyncio.timeout(10):
        refused, answered = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(refused, RpcError)
    assert refused.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(answered, BaseException)
    assert answered[0][1]
    assert pulls.parked == 0
    two.begin()
    ((_, payload),) = await two.pull(at(topic, 0))
    assert BatchHeader.at(payload).base_offset == 0
    for follower in (two, three):
        await follower.close()


async def test_replication_goes_on_after_a_pull_without_a_descriptor(
    nodes: Nodes, shortage: Shortage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaderFiles, "wants_bytes", lambda _: True)  # as from a node on another host
    topic = await nodes.topic("short", leader=1)
    await nodes[1].append(topic, batch(b"before"))
    await nodes.alike(topic)
    leader = nodes[1].node
    assert leader is not None
    await until(lambda: leader.opened.leader_side.pulls.parked == 1)
    shortage.come()
    await nodes[1].append(topic, batch(b"meanwhile"), acks=1)
    await until(lambda: nodes.content(2, topic) == nodes.content(1, topic))
    assert shortage.met == 1
    assert (await nodes[1].append(topic, batch(b"after"))).error == 0


async def test_a_parked_fetch_without_a_descriptor_fails_and_those_behind_it_are_answered(
    cluster: StorageCluster, shortage: Shortage
) -> None:
    topic = await cluster.topic("short")
    waiting = []
    for _ in range(2):
        waiting.append(cluster.fetching(topic, 0, inline=True, max_wait_ms=30_000))
        await until(lambda: parked(cluster) == len(waiting))
    shortage.come()
    await cluster.append(topic, batch(b"a"))
    async with asyncio.timeout(10):
        refused, answered = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(refused, RpcError)
    assert refused.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(answered, BaseException)
    assert fetched(answered)[0].inline_length == partition_of(cluster, topic).log.size
    assert parked(cluster) == 0
