"""Ports that a node leaves to the sibling with the lowest id, which cannot take them; and nodes that count as hung."""

import asyncio
import errno
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from services.node import siblings
from services.node.sibling_link import Sockets
from tests.node.sibling_nodes import Node
from tests.support.polling import until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "LEFT_S_MAX", 0.01)


class SilentSibling:
    """Node 9, which hangs: it has offered its socket to some nodes, and answers none that start later."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = socket.create_server(("127.0.0.1", 0))
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(f"{directory}/ports-9.sock")
        self._listening.listen()
        self._links: list[socket.socket] = []

    def offer_to(self, node: Node) -> None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(f"{self._directory}/ports-{node.node_id}.sock")
        socket.send_fds(link, [b'{"node": 9, "listeners": ["PLAINTEXT"]}'], [self.port.fileno()])
        self._links.append(link)

    def die(self) -> None:
        for each in (self._listening, self.port, *self._links):
            each.close()


async def test_a_port_whose_socket_the_lowest_sibling_lacks_is_taken_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It started while the node that has died hung, and so never had its socket."""
    monkeypatch.setattr(siblings, "RETURN_S_MAX", 0.05)
    two, silent = await Node(2, tmp_path).start(), SilentSibling(tmp_path)
    silent.offer_to(two)
    await until(lambda: two.siblings.keeps == {9})
    one = await Node(1, tmp_path).start()
    await until(lambda: two.siblings.keeps == {1, 9} and one.siblings.keeps == {2})
    silent.die()
    await until(lambda: two.siblings.taken == {9})
    await until(lambda: one.siblings.keeps == {2, 9})
    two.stop()
    await until(lambda: one.siblings.taken == {2, 9})
    one.stop()


async def test_a_port_is_left_to_the_lowest_sibling_that_has_taken_it_over(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a sibling that hangs: two registrations of one port are one too many."""
    monkeypatch.setattr(siblings, "HUNG_S", 0.0)
    one, two, three = nodes
    for node in (one, two):
        node.siblings.follow({1, 2, 3})
        node.siblings.follow({1, 2})
    await until(lambda: one.siblings.taken == {3} and two.siblings.hung == {3})
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * siblings.LEFT_S_MAX, passed.set)
    await passed.wait()
    assert two.siblings.taken == set()
    one.stop()
    await until(lambda: two.siblings.taken == {1, 3})
    assert three.siblings.taken == set()


async def test_a_port_that_the_lowest_sibling_cannot_take_is_taken_by_another_and_no_descriptor_is_lost(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = nodes
    tried: list[Sockets] = []

    def without_room(_broker_id: int, sockets: Mapping[str, socket.socket]) -> None:
        tried.append(dict(sockets))
        raise OSError(errno.ENOSPC, "no room to watch it")

    monkeypatch.setattr(one.ports, "take", without_room)
    three.stop()
    await until(lambda: two.siblings.taken == {3})
    assert one.siblings.taken == set()
    assert [each["PLAINTEXT"].fileno() for each in tried] == [-1] * len(tried) != []


async def test_a_node_that_offers_its_sockets_counts_as_hung_no_more_until_it_hangs_again(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "HUNG_S", 0.0)
    one, two, _ = nodes
    one.siblings.follow({1, 2, 3})
    one.siblings.follow({1, 3})
    await until(lambda: one.siblings.taken == {2})
    assert one.siblings.debug() == {"taken": [2], "keeps": [3], "hung": [2]}
    monkeypatch.setattr(siblings, "HUNG_S", 0.05)
    two.siblings.offer()
    await until(lambda: one.siblings.taken == set())
    assert one.siblings.debug() == {"taken": [], "keeps": [2, 3], "hung": []}
    await until(lambda: one.siblings.taken == {2})
    assert one.siblings.debug() == {"taken": [2], "keeps": [3], "hung": [2]}


async def test_a_node_that_starts_again_has_as_long_to_register_as_one_that_lost_its_lease(
    nodes: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "HUNG_S", 0.05)
    one, two, _ = nodes
    one.siblings.follow({1, 2, 3})
    two.stop()
    one.siblings.follow({1, 3})
    await until(lambda: one.siblings.taken == {2})
    monkeypatch.setattr(siblings, "HUNG_S", 600.0)
    nodes[1] = await Node(2, tmp_path).start()
    await until(lambda: one.siblings.taken == set())
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, passed.set)  # longer than the timer that ran when it died
    await passed.wait()
    assert one.siblings.hung == one.siblings.taken == set()
