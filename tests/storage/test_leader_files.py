"""Followers on their leader's host read its segment files in place."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.rpc.transport import socket_stream
from libs.rpc.transport.descriptors import Ancillary, close_all, received_descriptors
from services.storage.replication.follower.leader_files import LeaderFiles
from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


def files_of(nodes: Nodes, follower: int, leader: int) -> LeaderFiles:
    node = nodes[follower].node
    assert node is not None
    return node.opened.fetchers.fetchers[leader].files


async def opened(nodes: Nodes, topic: bytes) -> None:
    """Each follower has the only segment open: it asks for it when it first hears of it."""
    await nodes[1].append(topic, batch(b"first"))
    await until(lambda: all(len(files_of(nodes, follower, 1)) == 1 for follower in (2, 3)))


async def test_a_follower_opens_its_leaders_segment_once_and_copies_from_it(three: Nodes) -> None:
    topic = await three.topic("in-place", leader=1)
    await opened(three, topic)
    [before] = files_of(three, 2, 1).descriptors
    for number in range(20):
        assert (await three[1].append(topic, batch(b"%d" % number * 1000))).error == 0
    assert [*files_of(three, 2, 1).descriptors] == [before]
    await three.alike(topic)


async def test_files_of_a_leader_are_closed_with_its_connection(three: Nodes) -> None:
    topic = await three.topic("left", leader=1)
    await opened(three, topic)
    files = files_of(three, 2, 1)
    [descriptor] = files.descriptors
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    await three.lead(topic, 2)
    await until(lambda: not len(files))
    assert "/1/" in path
    assert (await three[2].append(topic, batch(b"further"))).error == 0
    await three.alike(topic)


async def test_records_that_cannot_be_read_in_place_are_fetched_as_bytes(three: Nodes) -> None:
    topic = await three.topic("cut off", leader=1)
    await opened(three, topic)
    for follower in (2, 3):
        files = files_of(three, follower, 1)
        for descriptor in files.descriptors:  # as a file that ends earlier: there is nothing to read
            empty = os.open(os.devnull, os.O_RDONLY)
            os.dup2(empty, descriptor)
            os.close(empty)
    for number in range(5):
        assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
    await three.alike(topic)


async def test_a_follower_without_room_for_descriptors_copies_bytes_and_opens_the_file_when_there_is_room(
    three: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(ancillary: Ancillary, flags: int) -> None:
        dropped.append(received_descriptors(ancillary, flags) or [])
        close_all(dropped[-1])

    dropped: list[list[int]] = []
    topic = await three.topic("no room", leader=1)
    with monkeypatch.context() as patched:
        patched.setattr(socket_stream, "received_descriptors", no_room)
        for number in range(10):
            assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
        await until(lambda: bool(dropped))
        await three.alike(topic)
        assert len(files_of(three, 2, 1)) == 0
    await opened(three, topic)
