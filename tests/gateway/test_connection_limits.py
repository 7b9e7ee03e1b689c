"""Limits of client connections, and the answers to clients beyond them."""

import asyncio
import logging
from collections.abc import Iterable

import pytest

from libs.rpc.transport.transport import Receiver, Stream
from services.gateway.core.connection_limits import (
    DESCRIPTORS_PER_FILE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    ConnectionLimits,
    DescriptorShares,
    share_descriptors,
)
from services.gateway.net.connections import Connections
from services.gateway.service import Gateway
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import FETCH, RawClient, fetch_body, frame
from tests.gateway.produce_requests import serves
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
    gateway = await rig.start(connections_per_ip_max=1)
    first = await rig.client(1)
    assert await serves(first)
    assert await all_end([await rig.client(1)])
    elsewhere = await rig.client(1, address="127.0.0.2")
    assert await serves(elsewhere)
    assert gateway.meters.refused == {MAX_CONNECTIONS_PER_IP: 1}
    await first.close()
    await until(lambda: gateway.meters.connections == 1)
    assert await serves(await rig.client(1))


async def test_clients_leave_descriptors_for_everything_else(rig: Rig) -> None:
    """The limit of open files alone, without a setting, keeps the flood out."""
    rig.descriptors_max = 16
    gateway = await rig.start()
    clients = [await rig.client() for _ in range(16)]
    await until(lambda: gateway.meters.connections + sum(gateway.meters.refused.values()) == 16)
    assert gateway.meters.connections == 16 - 4 - DESCRIPTORS_PER_FILE
    assert await serves(clients[0])


# --- connections that are closed while answers wait in them ---------------------------------------------------------------


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    """The streams that were accepted. Nobody waits for the timeout of `Stream.close`."""
    accepted: list[Stream] = []
    accept = Connections.accept

    def noted(connections: Connections, stream: Stream, broker_id: int) -> Receiver:
        accepted.append(stream)
        return accept(connections, stream, broker_id)

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
    ("descriptors", "connections_max", "expected"),
    [
        (1_048_576, 0, DescriptorShares(1_046_272, 512)),
        (20_000, 0, DescriptorShares(17_696, 512)),
        (1024, 0, DescriptorShares(512, 64)),
        (256, 0, DescriptorShares(128, 16)),
        (20_000, 100, DescriptorShares(100, 512)),
        (1024, 100_000, DescriptorShares(512, 64)),
    ],
)
def test_descriptors_are_shared_out(descriptors: int, connections_max: int, expected: DescriptorShares) -> None:
    assert share_descriptors(descriptors, connections_max=connections_max, open_files_max=512) == expected


def test_an_ended_connection_counts_no_more() -> None:
    limits = ConnectionLimits(3, 2)
    limits.opened("a")
    limits.opened("a")
    assert (limits.refusal("a"), limits.refusal("b")) == (MAX_CONNECTIONS_PER_IP, None)
    limits.opened("b")
    assert (limits.refusal("a"), limits.refusal("b")) == (MAX_CONNECTIONS, MAX_CONNECTIONS)
    limits.ended("a")
    assert limits.refusal("a") is None
    limits.ended("a")
    limits.ended("b")
    assert limits.by_host == {}
