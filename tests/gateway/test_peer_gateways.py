"""Clients are not sent to a gateway that has ended, from the moment on at which it has."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.gateway import neighbours
from tests.gateway.conftest import Rig, until
from tests.gateway.neighbour import PORT_BASE, Neighbour
from tests.gateway.test_departure import brokers


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy, who lives may take longer for an answer, and would be passed over for a while."""
    monkeypatch.setattr(neighbours, "ANSWER_S", 60.0)


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
    monkeypatch.setattr(neighbours, "PASSED_OVER_S", 3600.0)
    await rig.start()
    client = await rig.client()
    named = await brokers(client)
    assert PORT_BASE in {port - node for node, port in named.items()}
    neighbour.silent = True
    monkeypatch.setattr(neighbours, "ANSWER_S", 0.1)
    before = neighbour.asked
    for _ in range(3):
        assert await brokers(client) == named
    await until(lambda: neighbour.asked > before)
    assert neighbour.asked == before + 1


async def test_many_who_ask_together_ask_a_gateway_twice_at_most(rig: Rig, neighbour: Neighbour) -> None:
    gateway = await rig.start()
    await brokers(await rig.client())
    assert neighbour.asked == 1, "by who asks for metadata"
    await asyncio.gather(*[gateway.ask_neighbours() for _ in range(20)])
    assert neighbour.asked == 3
