"""Clients are not sent to a gateway that has ended, from the moment on at which it has."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.gateway.conftest import Rig
from tests.gateway.neighbour import PORT_BASE, Neighbour
from tests.gateway.test_departure import brokers


@pytest.fixture
async def neighbour(rig: Rig) -> AsyncIterator[Neighbour]:
    other = Neighbour(rig)
    await other.start()
    await other.join()
    yield other
    await other.end()


async def test_metadata_names_no_gateway_that_has_ended_though_it_is_a_member(rig: Rig, neighbour: Neighbour) -> None:
    await rig.start()
    client = await rig.client()
    assert len({port - node for node, port in (await brokers(client)).items()}) == 2
    await neighbour.end()
    assert await brokers(client) == {1: rig.port_base + 1, 2: rig.port_base + 2}


async def test_a_gateway_that_does_not_answer_is_named_and_waited_for_once(
    rig: Rig, neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.neighbours.PASSED_OVER_S", 3600.0)
    await rig.start()
    client = await rig.client()
    neighbour.silent = True
    for _ in range(3):
        assert any(port >= PORT_BASE for port in (await brokers(client)).values())
    assert neighbour.asked == 1


async def test_many_who_ask_for_metadata_together_ask_a_gateway_twice_at_most(rig: Rig, neighbour: Neighbour) -> None:
    await rig.start()
    clients = [await rig.client() for _ in range(20)]
    await brokers(clients[0])
    before = neighbour.asked
    await asyncio.gather(*[brokers(client) for client in clients])
    assert 1 <= neighbour.asked - before <= 20
