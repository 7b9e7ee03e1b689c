"""Endpoint hints: an answer tells an idempotent producer the brokers' new addresses, without a request and without an error."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.image_edit import ImageEdit
from libs.cluster.records import GATEWAY
from services.gateway.core.routing import Routes
from services.gateway.data_path import endpoint_hints
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fake_peer_gateway import PORT_BASE, FakePeerGateway
from tests.gateway.kafka_client import PRODUCE, RawClient, produce_body, read_produced
from tests.gateway.metadata_requests import brokers
from tests.gateway.produce_requests import BATCH, idempotent
from tests.support.polling import until

VERSION = 10


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_hints, "SETTLED_S", 0.0)


@pytest.fixture
async def peer_gateway(rig: Rig) -> AsyncIterator[FakePeerGateway]:
    other = FakePeerGateway(rig)
    await other.start()
    yield other
    await other.end()


async def hears(client: RawClient, batch: bytes, version: int = VERSION) -> dict[int, int]:
    """The ports of the brokers that an answer names."""
    client.ask(PRODUCE, version, produce_body(version, [(TOPIC, [(0, batch)])]))
    (produced,), endpoints = read_produced((await client.answer(PRODUCE, version))[1], version)
    assert produced.error == 0
    assert (produced.leader == 1) == bool(endpoints)
    return {node_id: port for node_id, _, port in endpoints}


async def joined(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    await peer_gateway.join()
    await until(lambda: rig.gateway is not None and 2 in rig.gateway.image.members("gateway"))


@pytest.mark.usefixtures("at_once")
async def test_of_a_gateway_that_joined_it_hears_once_and_need_not_move(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    await joined(rig, peer_gateway)
    now = await brokers(await rig.client())
    assert await hears(client, idempotent(1)) == {2: now[2]}
    assert await hears(client, idempotent(2)) == {}


@pytest.mark.usefixtures("at_once")
async def test_of_a_gateway_that_left_it_hears_too(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    await rig.start()
    await joined(rig, peer_gateway)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    await peer_gateway.leave()
    await until(lambda: rig.gateway is not None and 2 not in rig.gateway.image.members("gateway"))
    assert await hears(client, idempotent(1)) == {2: rig.port_base + 2}


@pytest.mark.usefixtures("at_once")
async def test_from_a_gateway_that_leaves_it_is_sent_away(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    gateway = await rig.start()
    await joined(rig, peer_gateway)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    stopping = asyncio.create_task(gateway.stop())
    await until(lambda: not gateway.image.members("gateway").get(1))
    assert await hears(client, idempotent(1)) == {1: PORT_BASE + 1, 2: PORT_BASE + 2}
    assert await client.ended()
    await stopping


@pytest.mark.usefixtures("at_once")
async def test_a_client_that_sent_a_metadata_request_since_then_gets_no_hint(rig: Rig, peer_gateway: FakePeerGateway) -> None:
    await rig.start()
    client = await rig.client(1)
    await joined(rig, peer_gateway)
    await brokers(client)
    assert await hears(client, idempotent(0)) == {}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("version", "batch"), [(9, idempotent(0)), (VERSION, BATCH)], ids=["old client", "not idempotent"])
async def test_other_clients_get_no_hint(rig: Rig, peer_gateway: FakePeerGateway, version: int, batch: bytes) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await hears(client, batch, version) == {}
    await joined(rig, peer_gateway)
    assert [await hears(client, batch, version) for _ in range(2)] == [{}, {}]


async def test_while_gateways_come_and_go_there_is_no_hint(
    rig: Rig, peer_gateway: FakePeerGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases expire at once when the store hangs, and the gateways register again one by one."""
    gateway = await rig.start()
    await joined(rig, peer_gateway)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    before = await brokers(await rig.client())
    monkeypatch.setattr(endpoint_hints, "SETTLED_S", 3600.0)
    await peer_gateway.leave()
    await until(lambda: 2 not in gateway.image.members("gateway"))
    assert await hears(client, idempotent(1)) == {}
    await joined(rig, peer_gateway)
    assert await hears(client, idempotent(2)) == {}
    monkeypatch.setattr(endpoint_hints, "SETTLED_S", 0.0)
    assert await brokers(await rig.client()) == before
    assert await hears(client, idempotent(3)) == {}


@pytest.mark.usefixtures("at_once")
async def test_a_gateway_that_is_no_member_for_a_moment_but_stays_sends_nobody_away(
    rig: Rig, peer_gateway: FakePeerGateway
) -> None:
    gateway = await rig.start()
    await joined(rig, peer_gateway)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    edit = ImageEdit(gateway.image)
    edit.delete(keys.member(GATEWAY, 1))
    gateway.data_path.follow(Routes(edit.finish(gateway.image.revision + 1), gateway.data_path.routes))
    assert await hears(client, idempotent(1)) == {}
