"""Limits of client connections, and the answers to clients beyond them."""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Sequence

import pytest

from libs.cluster import keys
from libs.cluster.client_quotas import IP_KEY
from libs.cluster.health import REFUSED_CLIENTS
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, ClientQuotas, ConfigOverrides, Member, NodeRecord, QuotaEntity
from libs.cluster.store import Delete, Outcome
from libs.rpc.contracts.controller import Finding
from libs.rpc.transport.transport import Receiver, Stream
from libs.runtime.controllers import Controllers
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.core.connection_configs import ConnectionConfigs
from services.gateway.core.connection_limits import (
    CONNECTION_CREATION_RATE,
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    ConnectionLimits,
    Refusal,
    address_of,
)
from services.gateway.core.descriptor_shares import DESCRIPTORS_PER_FILE, DescriptorShares, share_descriptors
from services.gateway.net.client_listener import ClientListener
from services.gateway.net.connections import FULL_S, Connections
from services.gateway.service import Gateway
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import API_VERSIONS, FETCH, RawClient, fetch_body, frame
from tests.gateway.produce_requests import BATCH, ask, error_of, serves
from tests.support.polling import until

REFUSED = "client connection refused"
MIB = 1 << 20
FETCH_ONE = fetch_body(11, [(TOPIC, [(0, 0)])])
GARBAGE = b"\xff" * 4


def refusals(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.fields for record in caplog.records if record.getMessage() == REFUSED]  # type: ignore[attr-defined]


async def all_end(clients: Iterable[RawClient]) -> bool:
    return all(await asyncio.gather(*(client.ended() for client in clients)))


async def test_a_connection_beyond_the_limit_is_closed_and_the_others_are_served(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start(connections_max=2)
    inside = [await rig.client(1), await rig.client()]
    assert await serves(inside[0])
    assert await all_end([await rig.client(1), await rig.client(), await rig.client(2)])
    assert gateway.meters.refused == {MAX_CONNECTIONS: 3}
    assert gateway.meters.connections == 2
    assert [(line["reason"], line["limit"]) for line in refusals(caplog)] == [(MAX_CONNECTIONS, 2)]
    assert await serves(inside[0])
    await inside[1].close()
    await until(lambda: gateway.meters.connections == 1)
    assert await serves(await rig.client(1)), "the place of the one that left"


async def test_one_address_has_a_limit_of_its_own(rig: Rig) -> None:
    gateway = await rig.start(connections_per_ip_max=2)
    first, second = await rig.client(1), await rig.client()
    assert await serves(first)
    assert await all_end([await rig.client(1)])
    elsewhere = await rig.client(1, address="127.0.0.2")
    assert await serves(elsewhere)
    assert gateway.meters.refused == {MAX_CONNECTIONS_PER_IP: 1}
    await second.close()
    await until(lambda: gateway.meters.connections == 2)
    assert await serves(await rig.client(1))


async def test_controllers_hear_that_clients_are_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Callable[[], Sequence[Finding]]] = []
    monkeypatch.setattr(Controllers, "report_findings", lambda _, findings: reported.append(findings))
    gateway = await rig.start(connections_max=2)
    (findings,) = reported
    inside = [await rig.client(1), await rig.client()]
    assert await serves(inside[0])
    assert findings() == ()
    assert await all_end([await rig.client(1)])
    (found,) = findings()
    assert (found.kind, found.name) == (REFUSED_CLIENTS, "1")
    assert 0 <= time.time() * 1000 - found.since_ms < FULL_S * 1000
    assert gateway.connections.full.since(gateway.data_path.now() + FULL_S + 1.0) is None


async def test_clients_leave_descriptors_for_everything_else(rig: Rig) -> None:
    """The limit of open files alone, without a setting, keeps the flood out."""
    rig.descriptors_max = 16
    gateway = await rig.start()
    clients = [await rig.client() for _ in range(16)]
    await until(lambda: gateway.meters.connections + sum(gateway.meters.refused.values()) == 16)
    assert gateway.meters.connections == 16 - 4 - DESCRIPTORS_PER_FILE
    assert await serves(clients[0])


# --- limits that change while the gateway runs ----------------------------------------------------------------------------


async def configure(rig: Rig, broker: str, values: dict[str, str]) -> None:
    await rig.put(keys.config("broker", broker), ConfigOverrides(values))
    await followed(rig)


async def set_quota(rig: Rig, address: str, rate: float) -> None:
    entity = QuotaEntity(ip=address)
    await rig.put(keys.client_quotas(entity), ClientQuotas({IP_KEY: rate}))
    await followed(rig)


async def followed(rig: Rig) -> None:
    assert rig.gateway is not None
    assert await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)


async def test_max_connections_is_changed_while_the_gateway_runs(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start()
    clients = [await rig.client(1) for _ in range(3)]
    for client in clients:
        assert await serves(client)
    await configure(rig, "", {"max.connections": "3"})
    assert gateway.meters.connections_max == 3
    assert await all_end([await rig.client(2)])
    await configure(rig, "", {"max.connections": "4"})
    assert await serves(await rig.client(1))
    await configure(rig, "", {})
    assert await serves(await rig.client(1))
    assert gateway.meters.refused == {MAX_CONNECTIONS: 1}
    assert [(line["reason"], line["limit"]) for line in refusals(caplog)] == [(MAX_CONNECTIONS, 3)]


async def test_a_lowered_limit_closes_those_that_were_silent_longest(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start(half_frame_s_max=0.2)  # sweeps come more often
    clients = [await rig.client(1) for _ in range(4)]
    for client in (clients[3], clients[1], clients[0], clients[2]):
        assert await serves(client)
    await configure(rig, "", {"max.connections": "2"})
    assert await all_end([clients[3], clients[1]])
    assert await serves(clients[0])
    assert await serves(clients[2])
    assert rig.closed("drain") == 2
    assert gateway.meters.connections == 2
    assert [record.getMessage() for record in caplog.records] == ["client connections beyond a lowered limit"]


async def test_a_connection_beyond_a_lowered_limit_gets_its_answer_first(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    gateway = await rig.start(half_frame_s_max=0.2)
    rig.nodes[1].holding = True
    parked = await rig.client(1)
    ask(parked, 1, BATCH)
    await until(lambda: bool(rig.nodes[1].held))
    later = [await rig.client(1) for _ in range(2)]
    for client in later:
        client.ask(API_VERSIONS, 0, b"")
        await client.answer(API_VERSIONS, 0)
    await configure(rig, "", {"max.connections": "2"})
    await until(lambda: "client connections beyond a lowered limit" in caplog.text)
    rig.nodes[1].release(0)
    assert await error_of(parked, 1) == 0
    assert await parked.ended()
    assert gateway.meters.connections == 2


async def test_a_brokers_own_limit_is_that_of_its_port(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start()
    await configure(rig, "1", {"max.connections": "1"})
    first = await rig.client(1)
    assert await serves(first)
    assert await all_end([await rig.client(1)])
    elsewhere = await rig.client(2)
    elsewhere.ask(API_VERSIONS, 0, b"")
    await elsewhere.answer(API_VERSIONS, 0)
    assert [(line["limit"], line["broker_id"]) for line in refusals(caplog)] == [(1, 1)]
    assert gateway.debug()["connection_limits"] == {
        "places": 17_696,
        "delayed": 0,
        "addresses_with_a_rate": 0,
        "gateway": {"connections": 2},
        "port of broker 1": {"connections": 1, "connections_max": 1},
    }
    await first.close()
    await until(lambda: rig.closed("client") == 1)
    assert await serves(await rig.client(1))


async def test_addresses_have_limits_of_their_own_while_the_gateway_runs(rig: Rig) -> None:
    gateway = await rig.start(connections_per_ip_max=2, connections_per_ip_overrides=("127.0.0.2:3",))
    for _ in range(2):
        assert await serves(await rig.client(1))
    assert await all_end([await rig.client(1)])
    for _ in range(3):
        assert await serves(await rig.client(1, address="127.0.0.2"))
    assert await all_end([await rig.client(1, address="127.0.0.2")])
    await configure(rig, "", {"max.connections.per.ip": "3", "max.connections.per.ip.overrides": "127.0.0.2:4"})
    assert await serves(await rig.client(1))
    assert await serves(await rig.client(1, address="127.0.0.2"))
    assert gateway.meters.refused == {MAX_CONNECTIONS_PER_IP: 2}


async def test_an_address_beyond_its_rate_is_let_in_no_more_and_hears_of_it_late(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start()
    await set_quota(rig, "127.0.0.2", 1.0)
    for _ in range(10):
        assert await serves(await rig.client(1, address="127.0.0.2"))
    loop = asyncio.get_running_loop()
    before = loop.time()
    beyond = await rig.client(1, address="127.0.0.2")
    beyond.send(frame(API_VERSIONS, 0, 1, b"") * 100)  # nothing of it is read
    assert await beyond.ended()
    assert loop.time() - before > 0.5
    refused = {"reason": CONNECTION_CREATION_RATE}
    assert rig.metrics.registry.get_sample_value("penstock_gateway_connections_refused_total", refused) == 1
    assert gateway.meters.connections == 10
    assert [(line["reason"], line["limit"]) for line in refusals(caplog)] == [(CONNECTION_CREATION_RATE, 1.0)]
    assert await serves(await rig.client(1)), "another address"
    assert await serves(await rig.client(1, address="127.0.0.2")), "a second later"


async def test_a_quota_of_addresses_is_changed_and_removed_while_the_gateway_runs(rig: Rig) -> None:
    gateway = await rig.start()
    await set_quota(rig, "", 0.1)
    assert await serves(await rig.client(1))
    assert await all_end([await rig.client(1)])
    await set_quota(rig, "127.0.0.1", 0.2)
    for _ in range(2):
        assert await serves(await rig.client(1))
    assert await all_end([await rig.client(1)])
    result = await rig.store.txn([], [Delete(keys.client_quotas(QuotaEntity(ip=address))) for address in ("", "127.0.0.1")])
    assert result.outcome is Outcome.OK
    await followed(rig)
    for _ in range(5):
        assert await serves(await rig.client(1))
    assert gateway.meters.refused == {CONNECTION_CREATION_RATE: 2}


async def test_a_client_that_hangs_up_while_it_is_delayed_gives_its_place_back(rig: Rig) -> None:
    rig.descriptors_max = 60
    gateway = await rig.start()
    await set_quota(rig, "127.0.0.1", 0.1)
    assert await serves(await rig.client(1))
    waiting = await rig.client(1)
    await until(lambda: gateway.connections.delayed == 1)
    await waiting.close()
    await until(lambda: gateway.connections.delayed == 0)


async def test_a_gateway_that_stops_waits_for_nobody_who_is_delayed(rig: Rig) -> None:
    gateway = await rig.start()
    await set_quota(rig, "127.0.0.1", 0.01)
    assert await serves(await rig.client(1))
    waiting = await rig.client(1)
    await until(lambda: gateway.connections.delayed == 1)
    await gateway.connections.drain()
    assert await waiting.ended()


async def test_connections_beyond_the_rate_of_ports_wait_and_are_served(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start(connection_creation_rate_max=5)
    loop = asyncio.get_running_loop()
    before = loop.time()
    clients = [await rig.client(1) for _ in range(55)]
    assert all(await asyncio.gather(*(serves(client) for client in clients)))
    assert loop.time() - before > 0.8, "five of them waited for a token each"
    assert gateway.meters.refused == {}
    # Tokens come while the first ones are accepted, too, so a slow machine waits for less.
    assert (rig.metrics.registry.get_sample_value("penstock_gateway_accept_wait_seconds_total") or 0.0) > 0.0
    (line,) = [record.fields for record in caplog.records if record.getMessage() == "client connections wait"]  # type: ignore[attr-defined]
    assert (line["reason"], line["broker_id"], line["limit"]) == (MAX_CONNECTION_CREATION_RATE, 1, 5)
    await configure(rig, "", {"max.connection.creation.rate": "1000"})
    before = loop.time()
    for _ in range(20):
        assert await serves(await rig.client(1))
    assert loop.time() - before < 2.0


# --- connections that are closed while answers wait in them ---------------------------------------------------------------


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    """The streams that were accepted. Nobody waits for the timeout of `Stream.close`."""
    accepted: list[Stream] = []
    accept = Connections.accept

    def noted(connections: Connections, stream: Stream, broker_id: int, listener: ClientListener) -> Receiver:
        accepted.append(stream)
        return accept(connections, stream, broker_id, listener)

    monkeypatch.setattr(Connections, "accept", noted)
    monkeypatch.setattr("libs.rpc.transport.socket_stream.CLOSE_TIMEOUT_S", 600.0)
    return accepted


async def start_with_records(rig: Rig, **changes: object) -> Gateway:
    rig.nodes[1].file = rig.directory / "segment"
    rig.nodes[1].file.write_bytes(bytes(MIB))
    return await rig.start(**({"sendfile_bytes_min": 1 << 30, "drain_s_max": 0.2} | changes))


async def not_reading(rig: Rig, count: int) -> list[RawClient]:
    """Clients that ask for more than the kernel takes, and read nothing of it."""
    clients = [await RawClient.connect(rig.port_base + 1, limit=1024) for _ in range(count)]
    for client in clients:
        client.send(frame(FETCH, 11, 1, FETCH_ONE) * 20)
    return clients


async def test_a_connection_keeps_its_place_and_its_budget_until_it_is_gone(rig: Rig, streams: list[Stream]) -> None:
    gateway = await start_with_records(rig, connections_max=4)
    meters = gateway.meters
    clients = await not_reading(rig, 4)
    await until(lambda: len(streams) == 4 and all(stream.pending_bytes > MIB // 4 for stream in streams))
    for client in clients:
        client.send(GARBAGE)
    await until(lambda: rig.closed("frame") == 4)
    assert await all_end([await rig.client(1) for _ in range(4)])
    assert meters.refused == {MAX_CONNECTIONS: 4}
    assert meters.connections == 4
    assert meters.answers.used >= sum(stream.pending_bytes for stream in streams) > MIB
    for client in clients:
        await client.close()
    await until(lambda: meters.connections == 0)
    assert meters.answers.used == 0
    assert await serves(await rig.client(1))
    assert meters.closed == {"frame": 4}, "each counts once"


async def test_a_connection_that_is_closed_still_sends_the_answers_that_wait(rig: Rig, streams: list[Stream]) -> None:
    gateway = await start_with_records(rig)
    (client,) = await not_reading(rig, 1)
    await until(lambda: bool(streams) and streams[0].pending_bytes > MIB // 4)
    client.send(GARBAGE)
    await until(lambda: rig.closed("frame") == 1)
    promised = streams[0].bytes_sent + streams[0].pending_bytes
    received = 0
    while received < promised:
        _, answer = await client.answer(FETCH, 11)
        received += 8 + answer.remaining
    assert received == promised
    assert await client.ended()
    await until(lambda: gateway.meters.connections == 0)
    assert gateway.meters.answers.used == 0
    await client.close()


async def test_the_budget_ends_connections_that_are_closed_while_answers_wait(rig: Rig, streams: list[Stream]) -> None:
    meters = (await start_with_records(rig, crowded_s_max=0.2)).meters
    clients = await not_reading(rig, 3)
    await until(lambda: len(streams) == 3 and all(stream.pending_bytes > MIB // 4 for stream in streams))
    for client in clients:
        client.send(GARBAGE)
    await until(lambda: rig.closed("frame") == 3)
    assert meters.connections == 3
    meters.answers.bytes_max = 1
    await until(lambda: meters.connections == 0)
    assert meters.answers.used == 0
    for client in clients:
        await client.close()


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        (1_048_576, DescriptorShares(1_046_272, 512)),
        (20_000, DescriptorShares(17_696, 512)),
        (1024, DescriptorShares(512, 64)),
        (256, DescriptorShares(128, 16)),
    ],
)
def test_descriptors_are_shared_out(descriptors: int, expected: DescriptorShares) -> None:
    assert share_descriptors(descriptors, open_files_max=512) == expected


# --- the limits themselves ------------------------------------------------------------------------------------------------


def limits_of(places: int = 1000, brokers: tuple[int, ...] = (1, 2), **changes: object) -> ConnectionLimits:
    """Of an image with such configs: `default`, `one` (of broker 1), `quotas` (by address) and `gateways` (their number)."""
    limits = ConnectionLimits(places, ConnectionConfigs({}, "PLAINTEXT"))
    limits.follow(image_with(brokers, **changes))  # type: ignore[arg-type]
    return limits


def image_with(
    brokers: tuple[int, ...] = (1, 2),
    *,
    default: dict[str, str] | None = None,
    one: dict[str, str] | None = None,
    quotas: dict[str, float] | None = None,
    gateways: int = 1,
) -> ClusterImage:
    overrides = {("broker", ""): default, ("broker", "1"): one}
    return dataclasses.replace(
        ClusterImage(),
        nodes={broker_id: NodeRecord(broker_id) for broker_id in brokers},
        members_by_role={GATEWAY: {each: Member(GATEWAY, each, 1, "host") for each in range(1, gateways + 1)}},
        overrides_by_resource={resource: values for resource, values in overrides.items() if values},
        client_quotas={QuotaEntity(ip=ip): {IP_KEY: rate} for ip, rate in (quotas or {}).items()},
    )


def came(limits: ConnectionLimits, host: str, broker_id: int = BOOTSTRAP, now: float = 0.0, *, times: int = 1) -> list[str]:
    """What becomes of connections: "" for one that is served, else the limit that it exceeds, with the broker of the port."""
    outcomes = []
    for _ in range(times):
        refusal = limits.refusal(host, broker_id, now)
        if refusal is None:
            limits.opened(host, broker_id)
        outcomes.append("" if refusal is None else f"{refusal.reason} {refusal.broker_id or ''}".strip())
    return outcomes


def test_an_ended_connection_counts_no_more() -> None:
    limits = limits_of(default={"max.connections": "3", "max.connections.per.ip": "2"})
    assert came(limits, "a", times=3) == ["", "", MAX_CONNECTIONS_PER_IP]
    assert came(limits, "b") == [""]
    assert came(limits, "a") + came(limits, "b") == [MAX_CONNECTIONS, MAX_CONNECTIONS]
    limits.ended("a", BOOTSTRAP)
    assert came(limits, "b") == [""]


def test_a_brokers_limit_is_that_of_its_port_beside_the_gateways() -> None:
    limits = limits_of(default={"max.connections": "3"}, one={"max.connections": "1", "max.connections.per.ip": "9"})
    assert came(limits, "a", 1, times=2) == ["", f"{MAX_CONNECTIONS} 1"]
    assert came(limits, "a", 2, times=3) == ["", "", MAX_CONNECTIONS], "a port beside it has room, and then the gateway has none"
    limits.ended("a", 1)
    assert came(limits, "b", 1) == [""]


def test_an_address_may_have_a_limit_of_its_own() -> None:
    limits = limits_of(default={"max.connections.per.ip": "2", "max.connections.per.ip.overrides": "10.0.0.7:3,::1:0"})
    assert came(limits, "tcp:10.0.0.7", times=4) == ["", "", "", MAX_CONNECTIONS_PER_IP]
    assert came(limits, "tcp:10.0.0.8", times=3) == ["", "", MAX_CONNECTIONS_PER_IP]
    assert came(limits, "tcp:[::1]") == [MAX_CONNECTIONS_PER_IP]


def test_a_limit_that_is_lowered_is_exceeded_until_connections_are_gone() -> None:
    limits = limits_of()
    came(limits, "a", 1, times=5)
    assert limits.exceeded() == []
    limits.follow(image_with(default={"max.connections": "4"}, one={"max.connections": "3"}))
    assert limits.exceeded() == [(None, 4), (1, 3)]
    limits.ended("a", 1)
    assert limits.exceeded() == [(1, 3)]
    limits.ended("a", 1)
    assert limits.exceeded() == []
    limits.follow(image_with())
    assert came(limits, "a", 1, times=5) == [""] * 5


def test_the_quota_of_an_address_holds_for_all_gateways_together() -> None:
    limits = limits_of(quotas={"": 1.0, "10.0.0.7": 4.0}, gateways=2)
    assert came(limits, "tcp:10.0.0.7", times=25) == [""] * 20 + [CONNECTION_CREATION_RATE] * 5
    assert came(limits, "tcp:10.0.0.8", times=6) == [""] * 5 + [CONNECTION_CREATION_RATE]
    assert came(limits, "tcp:10.0.0.7", now=1.0, times=3) == ["", "", CONNECTION_CREATION_RATE]
    limits.follow(image_with(quotas={"10.0.0.7": 4.0}, gateways=1))
    assert came(limits, "tcp:10.0.0.7", now=1.0) == [CONNECTION_CREATION_RATE], "a gateway that goes mints no token"
    assert came(limits, "tcp:10.0.0.7", now=2.0, times=5) == [""] * 4 + [CONNECTION_CREATION_RATE]
    assert came(limits, "tcp:10.0.0.8", now=2.0, times=100) == [""] * 100, "the default is gone"


def test_those_who_are_delayed_take_places_and_only_so_many() -> None:
    limits = limits_of(32, quotas={"10.0.0.7": 0.1})
    assert came(limits, "tcp:10.0.0.7") == [""]
    for waiting, delay_s in ((0, 1.0), (1, 1.0), (2, 0.0)):
        limits.delayed = waiting
        assert limits.refusal("tcp:10.0.0.7", 1, 0.0) == Refusal(CONNECTION_CREATION_RATE, 0.1, delay_s=delay_s)
    assert came(limits, "tcp:10.0.0.8", times=30) == [""] * 29 + [MAX_CONNECTIONS]


def test_a_port_waits_for_its_own_rate_and_all_of_them_for_the_gateways() -> None:
    limits = limits_of(default={"max.connection.creation.rate": "2"}, one={"max.connection.creation.rate": "1"})
    came(limits, "a", 1, times=10)
    assert [limits.wait_s(port, 0.0) for port in (1, 2, BOOTSTRAP)] == [1.0, 0.0, 0.0]
    came(limits, "a", 2, times=10)
    assert [limits.wait_s(port, 0.0) for port in (1, 2, BOOTSTRAP)] == [1.0, 0.5, 0.5]
    limits.follow(image_with(default={"max.connection.creation.rate": "3"}))
    assert [limits.wait_s(port, 0.0) for port in (1, 2, BOOTSTRAP)] == [0.0, 0.0, 0.0], "a new limit begins with a full bucket"


def test_a_connection_that_an_address_is_not_allowed_counts_in_no_other_rate() -> None:
    limits = limits_of(default={"max.connection.creation.rate": "1"}, quotas={"10.0.0.7": 0.1})
    came(limits, "tcp:10.0.0.7", times=100)
    assert came(limits, "tcp:10.0.0.8", times=9) == [""] * 9
    assert limits.wait_s(BOOTSTRAP, 0.0) == 1.0


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("tcp:10.0.0.7", "10.0.0.7"),
        ("tcp:[::1]", "::1"),
        ("tcp:[2001:0db8::0:1]", "2001:db8::1"),
        ("tcp:[::ffff:10.0.0.7]", "10.0.0.7"),
        ("tcp:[fe80::1%eth0]", "fe80::1%eth0"),
    ],
)
def test_addresses_are_looked_up_as_quotas_spell_them(host: str, address: str) -> None:
    assert address_of(host) == address
