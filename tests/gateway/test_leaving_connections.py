"""Connections that end in a turn in which something else happens to them."""

import asyncio

import pytest

from services.gateway.net.connection import Connection
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import API_VERSIONS
from tests.gateway.produce_requests import ask, error_of, plain, serves


def only_connection(gateway: Gateway) -> Connection:
    (connection,) = gateway.connections
    return connection


async def test_a_connection_that_leaves_while_it_is_held_reads_what_its_client_had_sent(rig: Rig) -> None:
    """The look that began before the hold ended says nothing: the socket was not watched."""
    gateway = await rig.start()
    client = await rig.client(1)
    assert await serves(client)
    connection, requests = only_connection(gateway), gateway.connections.requests
    requests.used += requests.bytes_max + 1  # those of other clients
    ask(client, 1, plain(1))
    assert await error_of(client, 1) == 0
    assert connection.debug()["waits_for_room"]
    ask(client, 2, plain(2))
    await client.drain()

    def give_back() -> None:
        requests.used -= requests.bytes_max + 1
        gateway.connections.room_freed()

    connection.leave()
    asyncio.get_running_loop().call_soon(give_back)
    assert await error_of(client, 2) == 0
    assert await client.ended()
    assert rig.closed("drain") == 1


async def test_a_connection_that_ends_as_its_batches_are_sent_does_not_wait_for_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    assert await serves(client)
    connection, requests = only_connection(gateway), gateway.connections.requests
    requests.used += requests.bytes_max + 1
    monkeypatch.setattr(gateway.data_path.appends, "flush", lambda: connection.close("internal", "an append failed"))
    client.ask(API_VERSIONS, 0, b"")
    assert await client.ended()
    assert rig.closed("internal") == 1
    assert requests.waiting == 0
    requests.used -= requests.bytes_max + 1
