"""The drain of clients. A gateway stops while another one serves: it names the other to its clients, and serves them until they
leave."""

import asyncio
import contextlib

import pytest

from libs.cluster import keys
from libs.cluster.records import GATEWAY, Listener, Member
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.fake_peer_gateway import PORT_BASE
from tests.gateway.kafka_client import PRODUCE, read_produced
from tests.gateway.metadata_requests import brokers
from tests.gateway.produce_requests import PRODUCE_ONE, serves
from tests.support.polling import until


@pytest.fixture
async def gateway(rig: Rig) -> Gateway:
    """One of two gateways."""
    listener = Listener("PLAINTEXT", "127.0.0.1", PORT_BASE)
    await rig.put(keys.member(GATEWAY, 2), Member(GATEWAY, 2, 1, "another-host", listeners=(listener,)))
    return await rig.start()


async def test_clients_that_come_back_are_served_and_sent_to_the_other_gateway(rig: Rig, gateway: Gateway) -> None:
    client = await rig.client(1)
    assert await serves(client)
    stopping = asyncio.create_task(gateway.stop())
    assert await client.ended()
    back = await rig.client(1)
    assert await serves(back)
    assert await brokers(back) == {1: PORT_BASE + 1, 2: PORT_BASE + 2}
    await back.close()
    await stopping
    with pytest.raises(ConnectionError):
        await rig.client(1)


async def test_one_connection_of_a_client_answers_what_it_asks_when_the_other_ends(
    rig: Rig, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.net.client_drain.UNUSED_S", 3600.0)
    first, second = await rig.client(1), await rig.client(2)
    assert await brokers(first) == await brokers(second)
    stopping = asyncio.create_task(gateway.stop())
    assert await first.ended()
    assert await brokers(second) == {1: PORT_BASE + 1, 2: PORT_BASE + 2}
    assert await second.ended()
    await stopping


async def test_open_requests_are_answered_before_the_connection_ends(rig: Rig, gateway: Gateway) -> None:
    client = await rig.client(1)
    rig.nodes[1].holding = True
    client.ask(PRODUCE, 9, PRODUCE_ONE)
    await until(lambda: len(rig.nodes[1].held) == 1)
    stopping = asyncio.create_task(gateway.stop())
    await until(lambda: not gateway.ready()[0])
    rig.nodes[1].release(0)
    assert read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0].error == 0
    assert await client.ended()
    await stopping


async def test_clients_that_stay_do_not_keep_it_for_ever(rig: Rig, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.gateway.net.client_drain.TIMEOUT_S", 0.1)
    monkeypatch.setattr("services.gateway.net.client_drain.RECONNECTED_S", 0.1)
    client = await rig.client(1)
    stopping = asyncio.create_task(gateway.stop())
    assert await client.ended()
    stubborn = await rig.client(1)
    await stopping
    assert await stubborn.ended()


async def test_it_waits_no_longer_than_it_may_for_clients_that_come_back(
    rig: Rig, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.net.client_drain.TIMEOUT_S", 0.5)
    monkeypatch.setattr("services.gateway.net.client_drain.RECONNECTED_S", 3600.0)

    async def come_back() -> None:
        with contextlib.suppress(ConnectionError):
            while await (await rig.client(1)).ended():
                pass

    first = await rig.client(1)
    stubborn = asyncio.create_task(come_back())
    async with asyncio.timeout(60):
        await gateway.stop()
        await stubborn
    assert await first.ended()


async def test_without_clients_nobody_is_waited_for(rig: Rig, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.gateway.net.client_drain.QUIET_S", 3600.0)
    await gateway.stop()
    assert len((await rig.store.range("/penstock/members/gateway/")).items) == 1
