"""An idempotent producer hears with its answers where brokers are now, without asking and without an error."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.image_edit import ImageEdit
from libs.cluster.records import GATEWAY
from services.gateway import news
from services.gateway.core.routing import Routes
from tests.gateway.conftest import TOPIC, Rig, until
from tests.gateway.kafka_client import PRODUCE, RawClient, produce_body, read_produced
from tests.gateway.neighbour import PORT_BASE, Neighbour
from tests.gateway.test_departure import brokers
from tests.gateway.test_produce import BATCH, idempotent

VERSION = 10


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "SETTLED_S", 0.0)


@pytest.fixture
async def neighbour(rig: Rig) -> AsyncIterator[Neighbour]:
    other = Neighbour(rig)
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


async def joined(rig: Rig, neighbour: Neighbour) -> None:
    await neighbour.join()
    await until(lambda: rig.gateway is not None and 2 in rig.gateway.image.members("gateway"))


@pytest.mark.usefixtures("at_once")
async def test_of_a_gateway_that_joined_it_hears_once_and_need_not_move(rig: Rig, neighbour: Neighbour) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    await joined(rig, neighbour)
    now = await brokers(await rig.client())
    assert await hears(client, idempotent(1)) == {2: now[2]}
    assert await hears(client, idempotent(2)) == {}


@pytest.mark.usefixtures("at_once")
async def test_of_a_gateway_that_left_it_hears_too(rig: Rig, neighbour: Neighbour) -> None:
    await rig.start()
    await joined(rig, neighbour)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    await neighbour.leave()
    await until(lambda: rig.gateway is not None and 2 not in rig.gateway.image.members("gateway"))
    assert await hears(client, idempotent(1)) == {2: rig.port_base + 2}


@pytest.mark.usefixtures("at_once")
async def test_from_a_gateway_that_leaves_it_is_sent_away(rig: Rig, neighbour: Neighbour) -> None:
    gateway = await rig.start()
    await joined(rig, neighbour)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    stopping = asyncio.create_task(gateway.stop())
    await until(lambda: not gateway.image.members("gateway").get(1))
    assert await hears(client, idempotent(1)) == {1: PORT_BASE + 1, 2: PORT_BASE + 2}
    assert await client.ended()
    await stopping


@pytest.mark.usefixtures("at_once")
async def test_who_asked_for_metadata_since_then_is_told_nothing(rig: Rig, neighbour: Neighbour) -> None:
    await rig.start()
    client = await rig.client(1)
    await joined(rig, neighbour)
    await brokers(client)
    assert await hears(client, idempotent(0)) == {}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("version", "batch"), [(9, idempotent(0)), (VERSION, BATCH)], ids=["old client", "not idempotent"])
async def test_others_are_told_nothing(rig: Rig, neighbour: Neighbour, version: int, batch: bytes) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await hears(client, batch, version) == {}
    await joined(rig, neighbour)
    assert [await hears(client, batch, version) for _ in range(2)] == [{}, {}]


async def test_while_members_come_and_go_it_is_told_nothing(
    rig: Rig, neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases of a store that hung end at once, and the gateways register again one after the other."""
    gateway = await rig.start()
    await joined(rig, neighbour)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    before = await brokers(await rig.client())
    monkeypatch.setattr(news, "SETTLED_S", 3600.0)
    await neighbour.leave()
    await until(lambda: 2 not in gateway.image.members("gateway"))
    assert await hears(client, idempotent(1)) == {}
    await joined(rig, neighbour)
    assert await hears(client, idempotent(2)) == {}
    monkeypatch.setattr(news, "SETTLED_S", 0.0)
    assert await brokers(await rig.client()) == before
    assert await hears(client, idempotent(3)) == {}


@pytest.mark.usefixtures("at_once")
async def test_a_gateway_that_is_no_member_for_a_moment_but_stays_sends_nobody_away(rig: Rig, neighbour: Neighbour) -> None:
    gateway = await rig.start()
    await joined(rig, neighbour)
    client = await rig.client(1)
    assert await hears(client, idempotent(0)) == {}
    edit = ImageEdit(gateway.image)
    edit.delete(keys.member(GATEWAY, 1))
    gateway.data_path.follow(Routes(edit.finish(gateway.image.revision + 1), gateway.data_path.routes))
    assert await hears(client, idempotent(1)) == {}
