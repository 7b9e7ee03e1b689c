"""Peer gateways: no client is sent to one that has ended."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.gateway.peers import peer_gateways
from tests.gateway.conftest import Rig
from tests.gateway.fake_peer_gateway import PORT_BASE, FakePeerGateway
from tests.gateway.metadata_requests import brokers
from tests.support.polling import until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long probe timeout: on a busy machine a live gateway may answer late, and would count as silent for a while."""
    monkeypatch.setattr(peer_gateways, "PROBE_TIMEOUT_S", 60.0)


@pytest.fixture
async def peer_gateway(rig: Rig) -> AsyncIterator[FakePeerGateway]:
    other = FakePeerGateway(rig)
    await other.start()
    await other.join()
    yield other
    await other.end()


async def test_metadata_names_no_gateway_that_has_ended_though_it_is_a_member(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    await rig.start()
    client = await rig.client()
    assert len({port - node for node, port in (await brokers(client)).items()}) == 2
    await peer_gateway.end()
    assert await brokers(client) == {1: rig.port_base + 1, 2: rig.port_base + 2}


async def test_a_gateway_that_does_not_answer_is_named_and_waited_for_once(
    rig: Rig, peer_gateway: FakePeerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_gateways, "SILENT_S", 3600.0)
    await rig.start()
    client = await rig.client()
    named = await brokers(client)
    assert PORT_BASE in {port - node for node, port in named.items()}
    peer_gateway.silent = True
    monkeypatch.setattr(peer_gateways, "PROBE_TIMEOUT_S", 0.1)
    before = peer_gateway.probes
    for _ in range(3):
        assert await brokers(client) == named
    await until(lambda: peer_gateway.probes > before)
    assert peer_gateway.probes == before + 1


async def test_many_concurrent_questions_probe_a_gateway_twice_at_most(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    gateway = await rig.start()
    await brokers(await rig.client())
    assert peer_gateway.probes == 1, "by who asks for metadata"
    await asyncio.gather(*[gateway.probe_peer_gateways() for _ in range(20)])
    assert peer_gateway.probes == 3
