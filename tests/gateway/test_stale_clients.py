"""Clients that do not know of a gateway that came: a connection ends between two requests, so that they ask for Metadata."""

from collections.abc import AsyncIterator, Callable

import pytest

from services.gateway.net import stale_clients
from services.gateway.net.connection import Connection
from services.gateway.net.connections import Connections
from tests.gateway.conftest import Rig
from tests.gateway.fake_peer_gateway import PORT_BASE, FakePeerGateway
from tests.gateway.metadata_requests import brokers
from tests.gateway.produce_requests import ask, error_of, plain, serves
from tests.support.polling import until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETTLED_S", "PAUSE_S", "ASKED_S"):
        monkeypatch.setattr(stale_clients, name, 0.05)


@pytest.fixture
async def peer_gateway(rig: Rig) -> AsyncIterator[FakePeerGateway]:
    other = FakePeerGateway(rig)
    await other.start()
    yield other
    await other.end()


def count(rig: Rig) -> int:
    assert rig.gateway is not None
    return len(rig.gateway.image.members("gateway"))


async def test_a_client_whose_broker_moved_to_a_gateway_that_came_asks_for_metadata_again(
    rig: Rig, peer_gateway: FakePeerGateway
) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await serves(client)
    await peer_gateway.join()
    assert await client.ended()
    back = await rig.client(1)
    assert await serves(back), "the ports stay open"
    assert PORT_BASE in {port - node_id for node_id, port in (await brokers(back)).items()}


async def test_a_client_that_asked_since_then_stays(
    rig: Rig, peer_gateway: FakePeerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale_clients, "SETTLED_S", 0.5)
    await rig.start()
    knows, does_not = await rig.client(1), await rig.client(1)
    await peer_gateway.join()
    await until(lambda: count(rig) == 2)
    assert await brokers(knows)
    assert await does_not.ended()
    assert await serves(knows)


async def test_nobody_has_to_ask_when_a_gateway_leaves(
    rig: Rig, peer_gateway: FakePeerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.start()
    await peer_gateway.join()
    await until(lambda: count(rig) == 2)
    client = await rig.client(1)
    assert await brokers(client)
    closed = told_to_leave(monkeypatch)
    await peer_gateway.leave()
    await until(lambda: len(closed) >= 2)  # unused connections, and then all
    assert set(closed) == {0}
    assert await serves(client)


async def test_all_pipelined_requests_are_answered_before_a_congested_connection_ends(
    rig: Rig, peer_gateway: FakePeerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = told_to_leave(monkeypatch)
    await rig.start(connection_requests_max=16)
    node = rig.nodes[1]
    node.holding = True
    client = await rig.client(1)
    for number in range(16):
        ask(client, number, plain(number))
    await until(lambda: len(node.stored) == 16)  # the gateway reads no more
    for number in range(16, 300):
        ask(client, number, plain(number))
    await peer_gateway.join()
    await until(lambda: 1 in left)
    node.holding = False
    while node.held:
        node.release(0)  # all in one turn: the connection is idle before it is read again
    for number in range(300):
        assert await error_of(client, number) == 0
    assert await client.ended()
    assert rig.closed("drain") == 1


def told_to_leave(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many connections each call of `Connections.leave` chose, from now on."""
    chosen: list[int] = []
    leave = Connections.leave

    def noted(connections: Connections, broker_id: int, unused_s: float, is_chosen: Callable[[Connection], bool]) -> int:
        chosen.append(leave(connections, broker_id, unused_s, is_chosen))
        return chosen[-1]

    monkeypatch.setattr(Connections, "leave", noted)
    return chosen
