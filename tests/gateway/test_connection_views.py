"""Who is connected, on the gateway's admin port."""

from typing import Any

from libs.runtime.admin import NotShown
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import API_VERSIONS, RawClient


async def heard(client: RawClient) -> RawClient:
    client.ask(API_VERSIONS, 0, b"")
    await client.answer(API_VERSIONS, 0)
    return client


async def test_connections_and_clients_are_listed_and_found_by_name(rig: Rig) -> None:
    gateway = await rig.start()
    views = gateway.connection_views
    await heard(await rig.client(1))
    await heard(await rig.client(2))
    shown: Any = views.connections()
    assert shown["open"] == 2
    assert sorted(each["broker_id"] for each in shown["connections"]) == [1, 2]
    one, _ = shown["connections"]
    peer = one["peer"]
    assert (one["outstanding"], one["held_bytes"], one["running_api"]) == (0, 0, None)
    assert await views.connection(peer) == [one | {"open_s": _Any, "quiet_s": _Any}]
    assert await views.connection(peer.removeprefix("tcp:")) == [one | {"open_s": _Any, "quiet_s": _Any}]
    clients: Any = views.clients()
    (client_id,) = clients["clients"]
    assert clients["clients"][client_id]["connections"] == 2
    found: Any = await views.client(client_id)
    assert found["hosts"] == ["127.0.0.1"]
    assert {each["peer"] for each in found["connections"]} == {each["peer"] for each in shown["connections"]}


async def test_who_is_not_connected_is_not_found(rig: Rig) -> None:
    gateway = await rig.start()
    views = gateway.connection_views
    assert await views.connection("10.0.0.1:1") == NotShown(404, {"error": "no client is connected from 10.0.0.1:1"})
    assert await views.client("nobody") == NotShown(404, {"error": "no client with the id nobody is connected"})


class _AnyValue:
    def __eq__(self, other: object) -> bool:
        return True


_Any = _AnyValue()
