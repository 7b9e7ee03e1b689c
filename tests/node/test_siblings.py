"""Nodes of one host that keep each other's listening sockets, in one process and without services."""

import asyncio
import contextlib
import ctypes
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from services.gateway.service import Gateway
from services.node import siblings
from services.node.node import _open
from services.node.sibling_link import LISTENERS_MAX, Sockets
from tests.node.sibling_nodes import FakePorts, Node
from tests.support.polling import until
from tests.support.requirements import require

CLONE_NEWNET = 0x40000000


async def test_no_program_that_a_node_starts_has_the_sockets_that_it_keeps(nodes: list[Node]) -> None:
    one, two, _ = nodes
    two.stop()
    await until(lambda: one.siblings.taken == {2})
    assert not one.ports.sockets(2)["PLAINTEXT"].get_inheritable()


async def accepted_by(node: Node, broker_id: int) -> bytes:
    """What the first client in the backlog of that broker's port had sent."""
    loop = asyncio.get_running_loop()
    client, _ = await loop.sock_accept(node.ports.sockets(broker_id)["PLAINTEXT"])
    with client:
        return await loop.sock_recv(client, 10)


async def test_the_lowest_living_sibling_takes_the_port_of_a_node_that_died_with_those_who_wait_there(nodes: list[Node]) -> None:
    one, two, three = nodes
    with socket.create_connection(two.address) as waiting, socket.create_connection(two.address) as later:
        waiting.send(b"waiting")
        later.send(b"later")
        two.stop()
        await until(lambda: one.siblings.taken == {2})
        assert await accepted_by(one, 2) == b"waiting"
        assert await accepted_by(one, 2) == b"later"
    assert one.told == [{1, 2}]
    assert three.siblings.taken == set()
    one.stop()
    await until(lambda: three.siblings.taken == {1, 2})


async def test_a_node_that_starts_again_gets_its_port_back_with_those_who_wait_there(nodes: list[Node], tmp_path: Path) -> None:
    one, two, three = nodes
    address = one.address
    one.stop()
    await until(lambda: two.siblings.taken == {1})
    with socket.create_connection(address) as waiting:
        waiting.send(b"waiting")
        nodes[0] = again = await Node(1, tmp_path).start()
        assert again.address == address
        assert await accepted_by(again, 1) == b"waiting"
    await until(lambda: two.siblings.taken == set())
    assert two.told == [{1, 2}, {2}]
    assert two.drained == [1]
    for node in (two, three):
        await until(lambda node=node: 1 in node.siblings.keeps)
    again.stop()
    await until(lambda: two.siblings.taken == {1})


class UnregisteredFront:
    """A gateway whose metadata store does not answer: it has opened its ports, and does not register."""

    def __init__(self, ports: FakePorts) -> None:
        self.listeners, self._ports = self, ports
        self.inherit: Callable[[], Awaitable[Sockets]] | None = None
        self.opened: Callable[[], None] | None = None

    def on_members(self, call: Callable[[Collection[int]], None]) -> None:
        """No image comes."""

    async def start(self) -> None:
        assert self.inherit is not None
        self._ports.take(1, await self.inherit())
        assert self.opened is not None
        self.opened()
        await asyncio.Event().wait()


async def test_a_node_that_dies_before_it_has_registered_leaves_its_port_to_siblings(nodes: list[Node], tmp_path: Path) -> None:
    one, two, _ = nodes
    address = one.address
    one.stop()
    await until(lambda: two.siblings.taken == {1})
    nodes[0] = again = Node(1, tmp_path)
    starting = asyncio.create_task(_open(cast("Gateway", UnregisteredFront(again.ports)), again.siblings))
    await until(lambda: two.siblings.taken == set() and 1 in two.siblings.keeps)
    starting.cancel()
    again.stop()
    await until(lambda: two.siblings.taken == {1})
    with socket.create_connection(address) as waiting:
        waiting.send(b"waiting")
        assert await accepted_by(two, 1) == b"waiting"


async def test_a_node_that_started_after_another_died_takes_its_port_from_the_sibling_that_has_it(
    nodes: list[Node], tmp_path: Path
) -> None:
    """It has the lowest id, so the sibling that kept the socket all the while leaves it to this node."""
    one, _, three = nodes
    address = three.address
    three.stop()
    await until(lambda: one.siblings.taken == {3})
    nodes.append(zero := await Node(0, tmp_path).start())
    await until(lambda: zero.siblings.keeps == {1, 2, 3})
    one.stop()
    await until(lambda: zero.siblings.taken == {1, 3})
    with socket.create_connection(address) as waiting:
        waiting.send(b"waiting")
        assert await accepted_by(zero, 3) == b"waiting"
    nodes[2] = again = await Node(3, tmp_path).start()
    assert again.address == address
    await until(lambda: zero.siblings.taken == {1})


async def test_a_port_is_served_until_the_node_that_asked_for_it_has_it(nodes: list[Node], tmp_path: Path) -> None:
    one, two, _ = nodes
    one.stop()
    await until(lambda: two.siblings.taken == {1})
    nodes[0] = again = Node(1, tmp_path)
    again.siblings.listen()
    returned = await again.siblings.reclaim()
    with socket.create_connection(returned["PLAINTEXT"].getsockname()) as waiting:
        waiting.send(b"waiting")
        assert two.siblings.taken == {1}
        assert await accepted_by(two, 1) == b"waiting"
    again.ports.take(1, returned)
    again.siblings.offer()
    await until(lambda: two.siblings.taken == set())
    assert two.told == [{1, 2}, {2}]


async def test_a_node_that_is_not_open_yet_takes_no_port_over(nodes: list[Node], tmp_path: Path) -> None:
    """It has no image. Siblings that serve do not leave a port to it, though its id is the lowest."""
    one, two, _ = nodes
    zero = Node(0, tmp_path)
    zero.siblings.listen()
    nodes.append(four := await Node(4, tmp_path).start())
    await until(lambda: zero.siblings.keeps == {4} and one.siblings.keeps == {2, 3, 4})
    nodes.append(zero)
    four.stop()
    await until(lambda: one.siblings.taken == {4})
    assert zero.siblings.taken == set()
    await zero.open()
    await until(lambda: zero.siblings.keeps == {1, 2, 3, 4})
    assert zero.siblings.taken == set(), "it has a sibling"
    one.stop()
    await until(lambda: zero.siblings.taken == {1, 4})
    assert two.told == []


async def test_a_node_takes_the_ports_over_that_nobody_serves_once_it_is_open(tmp_path: Path) -> None:
    one = Node(1, tmp_path)
    one.siblings.listen()
    two = await Node(2, tmp_path).start()
    await until(lambda: one.siblings.keeps == {2})
    two.stop()
    await one.open()
    await until(lambda: one.siblings.taken == {2})
    one.stop()


async def test_a_connection_between_siblings_that_breaks_is_no_death(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(siblings, "OFFER_AGAIN_S", 0.0)
    caplog.set_level("INFO")
    one, two, three = nodes
    with socket.create_server(("127.0.0.1", 0)) as spare, socket.create_server(("127.0.0.1", 0)) as renewed:
        own = one.ports.open[1]
        one.ports.open[1] = own | {f"too many {number}": spare for number in range(LISTENERS_MAX)}
        one.siblings.offer()
        one.ports.open[1] = own
        two.ports.open[2]["RENEWED"] = renewed
        offers = two.ports.offers
        await until(lambda: two.ports.offers > offers)
        assert "a sibling's message cannot be used" in caplog.messages
        assert one.told == two.told == three.told == []
        two.stop()
        await until(lambda: one.siblings.taken == {2})
        assert one.ports.open[2].keys() == {"PLAINTEXT", "RENEWED"}, "it was offered over another connection"


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Those that are open stay so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_node_without_descriptors_takes_no_living_sibling_for_dead(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(siblings, "OFFER_AGAIN_S", 0.0)
    caplog.set_level("INFO")
    one, two, three = nodes
    with no_descriptors():
        two.siblings.offer()
        await until(lambda: "a sibling's message cannot be used" in caplog.messages)
        offers = two.ports.offers
    await until(lambda: two.ports.offers > offers)
    assert one.told == two.told == three.told == []
    two.stop()
    await until(lambda: one.siblings.taken == {2})


async def test_a_node_takes_a_port_over_once_it_has_descriptors(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(siblings, "TRY_AGAIN_S", 0.0)
    monkeypatch.setattr(siblings, "HUNG_S", 0.0)
    caplog.set_level("INFO")
    one, _, _ = nodes
    with no_descriptors():
        one.siblings.follow({1, 2, 3})
        one.siblings.follow({1, 3})
        await until(lambda: "cannot take a broker's port over yet" in caplog.messages)
        assert one.siblings.taken == set()
    await until(lambda: one.siblings.taken == {2})


async def test_a_connection_that_cannot_be_accepted_costs_no_turns_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepts: list[socket.socket] = []
    accept = socket.socket.accept

    def counted(self: socket.socket) -> tuple[socket.socket, object]:
        accepts.append(self)
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", counted)
    node = await Node(1, tmp_path).start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link, socket.create_server(("127.0.0.1", 0)) as port:
        with no_descriptors():
            link.connect(f"{tmp_path}/ports-1.sock")
            await until(lambda: bool(accepts))
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(accepts) == 1
        socket.send_fds(link, [b'{"node": 9, "listeners": ["PLAINTEXT"]}'], [port.fileno()])
        await until(lambda: node.siblings.keeps == {9})
    node.stop()


async def test_a_sibling_that_accepts_one_more_connection_while_it_dies_is_dead(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    node = await Node(1, tmp_path).start()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dying,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link,
        socket.create_server(("127.0.0.1", 0)) as port,
    ):
        dying.bind(f"{tmp_path}/ports-9.sock")
        dying.listen()
        dying.setblocking(False)
        link.connect(f"{tmp_path}/ports-1.sock")
        socket.send_fds(link, [b'{"node": 9, "listeners": ["PLAINTEXT"]}'], [port.fileno()])
        await until(lambda: node.siblings.keeps == {9})
        link.close()
        again, _ = await loop.sock_accept(dying)
        assert node.siblings.taken == set()
        again.close()
        dying.close()
        await until(lambda: node.siblings.taken == {9})
    node.stop()


async def test_the_port_of_a_sibling_that_hangs_is_taken_over_until_it_is_back(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sockets are open, and its lease has run out."""
    monkeypatch.setattr(siblings, "HUNG_S", 0.0)
    one, two, three = nodes
    for node in (one, three):
        node.siblings.follow({1, 2, 3})
        node.siblings.follow({1, 3})
    with socket.create_connection(two.address) as waiting:
        waiting.send(b"waiting")
        await until(lambda: one.siblings.taken == {2})
        assert await accepted_by(one, 2) == b"waiting"
    one.siblings.follow({1, 2, 3})
    assert one.siblings.taken == three.siblings.taken == set()
    assert one.drained == [2]
    with socket.create_connection(two.address) as waiting:
        waiting.send(b"waiting")
        assert await accepted_by(two, 2) == b"waiting"
    two.stop()
    await until(lambda: one.siblings.taken == {2})


async def test_a_sibling_that_hangs_is_no_reason_to_leave_ports_to_it(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "HUNG_S", 0.0)
    _, two, three = nodes
    for node in (two, three):
        node.siblings.follow({1, 2, 3})
        node.siblings.follow({2, 3})
    await until(lambda: two.siblings.taken == {1})
    three.stop()
    await until(lambda: two.siblings.taken == {1, 3})


async def test_a_sibling_is_not_hung_whose_lease_was_lost_for_a_moment_or_with_the_own_one(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "HUNG_S", 0.02)
    one, _, three = nodes
    one.siblings.follow({1, 2, 3})
    one.siblings.follow({1, 3})
    one.siblings.follow({1, 2, 3})
    one.siblings.follow(())
    three.siblings.follow({1, 2, 3})
    three.siblings.follow({2, 3})
    await until(lambda: three.siblings.hung == {1})  # which had as long
    assert one.siblings.hung == one.siblings.taken == set()
    one.siblings.follow({1, 2})
    await until(lambda: one.siblings.taken == {3})
    assert one.siblings.hung == {3}


async def test_a_sibling_that_does_not_answer_delays_a_start_and_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "RETURN_S_MAX", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hung:
        hung.bind(f"{tmp_path}/ports-9.sock")
        hung.listen()
        (tmp_path / "ports-8.sock").touch()
        node = await Node(1, tmp_path).start()
        assert node.ports.sockets(1)
        node.stop()


async def test_a_node_that_has_its_sockets_does_not_wait_for_a_sibling_that_hangs(
    nodes: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "RETURN_S_MAX", 600.0)
    one, two, _ = nodes
    address = one.address
    one.stop()
    await until(lambda: two.siblings.taken == {1})
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hung:
        hung.bind(f"{tmp_path}/ports-9.sock")
        hung.listen()
        nodes[0] = again = await Node(1, tmp_path).start()
    assert again.address == address


async def test_what_is_no_message_of_a_sibling_ends_its_connection_alone(nodes: list[Node], tmp_path: Path) -> None:
    for packet in (b"{", b"[]", b"{}", b'{"node": "x", "listeners": []}', b'{"node": 7, "listeners": ["PLAINTEXT"]}'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(f"{tmp_path}/ports-1.sock")
            stranger.send(packet)
            stranger.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(stranger, 10) == b""
    assert nodes[0].siblings.keeps == {2, 3}
    assert nodes[0].siblings.taken == set()


async def test_a_process_of_another_network_is_no_sibling(tmp_path: Path) -> None:
    """As in another container that shares the directory. Its listening socket would outlive its network, and nobody reach it."""
    require("root")

    def connect_from_another_network() -> bytes:
        done = ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET)
        assert done == 0, os.strerror(ctypes.get_errno())
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link, socket.create_server(("", 0)) as port:
            link.settimeout(30)
            link.connect(f"{tmp_path}/ports-1.sock")
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(link, [b'{"node": 9, "listeners": ["PLAINTEXT"]}'], [port.fileno()])
            try:
                return link.recv(10)
            except ConnectionResetError:
                return b""

    node = await Node(1, tmp_path).start()
    with ThreadPoolExecutor(1) as other:  # its thread ends with the network
        assert await asyncio.get_running_loop().run_in_executor(other, connect_from_another_network) == b""
    assert node.siblings.keeps == node.siblings.taken == set()
    node.stop()


async def test_an_answer_that_comes_too_late_is_not_kept_as_the_siblings_own_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "RETURN_S_MAX", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as slow, socket.create_server(("127.0.0.1", 0)) as kept:
        slow.bind(f"{tmp_path}/ports-9.sock")
        slow.listen()
        node = await Node(1, tmp_path).start()
        link, _ = slow.accept()
        with link:
            socket.send_fds(link, [b'{"node": 9, "returns": true, "listeners": ["PLAINTEXT"]}'], [kept.fileno()])
            link.send(b"{")  # after which the node ends the connection
            link.setblocking(False)
            while await asyncio.get_running_loop().sock_recv(link, 1000):
                pass
        assert node.siblings.keeps == node.siblings.taken == set()
        node.stop()
