"""Misuse of a connection: bad frames, slow clients, floods. It ends that connection only."""

import asyncio
import struct
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import pytest

from libs.cluster import keys
from libs.cluster.records import STORAGE
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.net.connection import Connection
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import API_VERSIONS, METADATA, PRODUCE, RawClient, frame, read_produced
from tests.gateway.produce_requests import PRODUCE_ONE, serves
from tests.support.polling import until

CREATE_DELEGATION_TOKEN, GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 38, 71, 72
BATCH = bytes(build_batch([Record(None, b"one")]))


@pytest.fixture
async def bystander(rig: Rig) -> RawClient:
    """A correct connection, opened before the other one misbehaves. It must still be served afterwards."""
    await rig.start(half_frame_s_max=0.2, unread_answers_s_max=0.2, idle_s_max=60.0)
    client = await rig.client(1)
    assert await serves(client)
    return client


@pytest.mark.parametrize("length", [-1, -(2**31), 104_857_601, 2**31 - 1])
async def test_row_1_an_impossible_frame_length_closes(rig: Rig, bystander: RawClient, length: int) -> None:
    client = await rig.client(1)
    client.send(struct.pack(">i", length) + b"whatever")
    assert await client.ended()
    assert rig.closed("frame") == 1
    assert await serves(bystander)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (bytes.fromhex("16030100f5010000f10303"), "TLS on a plaintext port"),
        (bytes.fromhex("160303007a0200"), "TLS on a plaintext port"),
        (b"GET /metrics HTTP/1.1\r\nHost: kafka\r\n\r\n", "HTTP on a Kafka port"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP on a Kafka port"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "PROXY protocol"),
        (b"\r\n\r\n\0\r\nQUIT\n", "PROXY protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH on a Kafka port"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes"),
    ],
)
async def test_another_protocol_is_recognised_and_said_once(
    rig: Rig, bystander: RawClient, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    for _ in range(3):
        client = await rig.client(1)
        client.send(sent)
        assert await client.ended()
    assert rig.closed("frame") == 3
    lines = [record for record in caplog.records if record.getMessage() == "client connection closed"]
    assert len(lines) == 1
    assert lines[0].fields["detail"].startswith(words)  # type: ignore[attr-defined]
    assert await serves(bystander)


@pytest.mark.parametrize(
    ("api_key", "version", "reason"),
    [
        (999, 0, "malformed"),
        (-1, 0, "malformed"),
        (CREATE_DELEGATION_TOKEN, 0, "api"),
        (PRODUCE, 2, "version"),
        (PRODUCE, 14, "version"),
        (METADATA, 99, "version"),
        (METADATA, -1, "version"),
    ],
)
async def test_row_3_what_we_do_not_serve_closes(rig: Rig, bystander: RawClient, api_key: int, version: int, reason: str) -> None:
    client = await rig.client(1)
    client.ask(api_key, version, b"")
    assert await client.ended()
    assert rig.closed(reason) == 1
    assert await serves(bystander)


@pytest.mark.parametrize("api_key", [GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY])
async def test_row_50_telemetry_of_clients_is_not_served_so_none_is_decompressed(
    rig: Rig, bystander: RawClient, api_key: int
) -> None:
    client = await rig.client(1)
    no_tagged_fields = b"\0"
    client.ask(api_key, 0, no_tagged_fields)
    assert await client.ended()
    assert rig.closed("api") == 1
    assert await serves(bystander)


@pytest.mark.parametrize("version", [5, 99, -1, 32767])
async def test_row_4_an_unknown_version_of_api_versions_gets_the_list_of_served_ones(rig: Rig, version: int) -> None:
    await rig.start()
    client = await rig.client()
    client.ask(API_VERSIONS, version, b"\3x\3y\0", correlation_id=9)
    correlation_id, reader = await client.answer(API_VERSIONS, 0)
    assert correlation_id == 9
    assert reader.int16() == ErrorCode.UNSUPPORTED_VERSION
    assert reader.array_length(False) == 1
    assert [reader.int16() for _ in range(3)] == [API_VERSIONS, 0, 4]
    reader.expect_end()
    client.ask(API_VERSIONS, 0, b"")
    assert (await client.answer(API_VERSIONS, 0))[1].int16() == 0, "the connection goes on"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\0\xff\xff\0\0\0\1\xff\xff\xff\xff\x0f", id="row 6: more topics than bytes"),
        pytest.param(PRODUCE_ONE[:-1] + b"\xff\xff\xff\xff\x0f", id="row 7: millions of tagged fields"),
        pytest.param(PRODUCE_ONE + b"\0", id="row 8: trailing bytes"),
        pytest.param(PRODUCE_ONE[:-5], id="row 8: the body ends early"),
        pytest.param(b"\0\xff\xff\0\0\0\1\2\3\xff\xfe", id="row 8: a name that is not UTF-8"),
        pytest.param(b"\x80\x80\x80\x80\x80\x80", id="row 8: an overlong varint"),
        pytest.param(b"", id="no body"),
    ],
)
async def test_rows_6_to_8_a_malformed_body_closes(rig: Rig, bystander: RawClient, body: bytes) -> None:
    client = await rig.client(1)
    client.ask(PRODUCE, 9, body)
    assert await client.ended()
    assert rig.closed("malformed") == 1
    assert await serves(bystander)


async def test_a_frame_without_a_header_closes(rig: Rig, bystander: RawClient) -> None:
    for empty in (b"", b"\0", b"\0\0\0\0\0"):
        client = await rig.client(1)
        client.send(struct.pack(">i", len(empty)) + empty)
        assert await client.ended()
    assert rig.closed("malformed") == 3
    assert await serves(bystander)


async def test_row_9_half_a_frame_then_silence_closes(rig: Rig, bystander: RawClient) -> None:
    client = await rig.client(1)
    client.send(frame(PRODUCE, 9, 1, PRODUCE_ONE)[:-3])
    assert await client.ended()
    assert rig.closed("half-frame") == 1
    assert await serves(bystander)


async def test_row_9_a_byte_at_a_time_closes(rig: Rig, bystander: RawClient) -> None:
    client = await rig.client(1)
    sent = frame(PRODUCE, 9, 1, PRODUCE_ONE * 100)
    ended = asyncio.create_task(client.ended())
    for position in range(len(sent)):
        client.send(sent[position : position + 1])
        if (await asyncio.wait([ended], timeout=0.01))[0]:
            break
    assert await ended
    assert rig.closed("half-frame") == 1
    assert await serves(bystander)


@pytest.mark.parametrize("before", [1, 4, 8])
async def test_a_request_that_comes_byte_by_byte_takes_few_turns(rig: Rig, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    received: list[int] = []
    updated = Connection.buffer_updated

    def note(connection: Connection, nbytes: int) -> None:
        received.append(nbytes)
        updated(connection, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", note)
    await rig.start()
    client = await rig.client(1)
    sent = frame(PRODUCE, 9, 1, PRODUCE_ONE)
    for _ in range(2):
        received.clear()
        client.send(sent[:before])
        await until(lambda: sum(received) == before)
        for position in range(before, len(sent)):
            client.send(sent[position : position + 1])
            await asyncio.sleep(0)
        assert read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0].error == 0
        assert (len(received) <= 3, sum(received)) == (True, len(sent))
        assert await serves(client), "a whole request has a turn at once again"


async def test_an_idle_connection_closes_and_one_that_waits_for_an_answer_does_not(rig: Rig) -> None:
    await rig.start(idle_s_max=0.2)
    waiting, idle = await rig.client(1), await rig.client(1)
    assert await serves(waiting)
    rig.nodes[1].holding = True
    waiting.ask(PRODUCE, 9, PRODUCE_ONE)
    await until(lambda: len(rig.nodes[1].held) == 1)
    assert await idle.ended()
    assert rig.closed("idle") == 1
    await asyncio.sleep(0.3)
    rig.nodes[1].release(0)
    assert read_produced((await waiting.answer(PRODUCE, 9))[1], 9)[0][0].error == 0


@pytest.mark.parametrize(("own_s", "idle_ms", "closes"), [(600.0, "50", True), (0.1, "600000", False), (0.1, "-1", False)])
async def test_a_broker_s_idle_time_holds_for_its_port_in_the_place_of_the_gateway_s(
    rig: Rig, own_s: float, idle_ms: str, closes: bool
) -> None:
    gateway = await rig.start(idle_s_max=own_s)
    member = gateway.image.members(STORAGE)[1]
    await rig.put(keys.member(STORAGE, 1), replace(member, configs={"connections.max.idle.ms": idle_ms}))
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    idle, by_bootstrap = await rig.client(1), await rig.client()
    assert await (idle if closes else by_bootstrap).ended()
    assert rig.closed("idle") == 1
    assert await serves(by_bootstrap if closes else idle)


async def test_row_51_a_client_id_of_any_kind_is_served_and_escaped_in_logs(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    for client_id in (b"a\nevent=forged", b"\x1b[31mred", b"x" * 32_000):
        client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=client_id)
        assert read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0].error == 0
    client.ask(PRODUCE, 99, b"", client_id=b"a\nevent=forged")
    assert await client.ended()
    given = [getattr(record, "fields", {}).get("client_id") for record in caplog.records]
    assert "a\nevent=forged" in given, "the formatter escapes it: see tests of libs.telemetry"
    assert b"forged" not in rig.metrics.render()
    assert gateway.meters.connections == 0


async def test_row_52_requests_without_end_and_answers_unread_are_held_back_then_closed(rig: Rig, bystander: RawClient) -> None:
    client = await RawClient.connect(rig.port_base + 1, limit=1024)
    # Metadata of a missing topic: the answer repeats the name, so it is as large as the request.
    body = b"\2" + b"\xd9\x04" + b"x" * 600 + b"\0" + b"\0\0\0" + b"\0"
    request = frame(METADATA, 9, 1, body)
    sent = 0

    async def flood() -> None:
        nonlocal sent
        while True:
            client.send(request * 100)
            sent += 100
            await client.drain()

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(flood(), 60)
    assert rig.closed("unread") == 1
    assert sent < 1_000_000
    assert await serves(bystander)
    await client.close()


async def test_a_client_that_reads_late_gets_everything(rig: Rig) -> None:
    await rig.start(unread_answers_s_max=60.0, connection_requests_max=16)
    client = await rig.client(1)

    async def flood() -> None:
        for number in range(2000):
            client.ask(PRODUCE, 9, PRODUCE_ONE, correlation_id=number)
            await client.drain()

    flooding = asyncio.create_task(flood())
    await until(lambda: len(rig.nodes[1].stored) > 100)
    assert [(await client.answer(PRODUCE, 9))[0] for _ in range(2000)] == list(range(2000))
    await flooding
    assert len(rig.nodes[1].stored) == 2000


async def test_stopping_answers_what_was_asked(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    rig.nodes[1].holding = True
    client.ask(PRODUCE, 9, PRODUCE_ONE)
    await until(lambda: len(rig.nodes[1].held) == 1)
    stopping = asyncio.create_task(gateway.stop())
    await until(lambda: not gateway.ready()[0])
    assert (await rig.store.range("/penstock/members/gateway/")).items == ()
    with pytest.raises(ConnectionError):
        await rig.client(1)
    rig.nodes[1].release(0)
    assert read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0].error == 0
    assert await client.ended()
    await stopping


async def test_a_quiet_gateway_gives_memory_back_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("services.gateway.net.connections.give_back_memory", lambda: given.append(1))
    await rig.start(idle_s_max=0.4)  # sweeps every 0.1 s
    client = await rig.client(1)
    assert await serves(client)
    given.clear()  # the gateway may have been idle before
    await until(lambda: rig.closed("idle") == 1 and bool(given))
    assert given == [1]


async def test_a_sweep_checks_a_few_connections_in_a_turn_and_each_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[float, Connection]] = []
    monkeypatch.setattr("services.gateway.net.connections.CHECKED_A_TURN", 2)
    monkeypatch.setattr(Connection, "check", lambda connection, now: checked.append((now, connection)))
    gateway = await rig.start(idle_s_max=0.4)  # sweeps every 0.1 s
    for _ in range(5):
        assert await serves(await rig.client(1))
    first, *others = gateway.connections
    checked.clear()
    await until(lambda: len(checked) > 15 and checked[-1][1] is others[0])
    turns = [[connection for _, connection in turn] for _, turn in groupby(checked, key=itemgetter(0))]
    assert turns[-4:] == [[first, others[0]], others[1:3], others[3:], [first, others[0]]]


async def test_a_sweep_leaves_out_connections_that_end_meanwhile(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Connection] = []

    def check(connection: Connection, _now: float) -> None:
        checked.append(connection)
        for other in gateway.connections if connection is first else ():
            loop.call_soon(other.close, "idle")

    monkeypatch.setattr("services.gateway.net.connections.CHECKED_A_TURN", 1)
    loop, gateway = asyncio.get_running_loop(), await rig.start(idle_s_max=0.4)  # sweeps every 0.1 s
    for _ in range(3):
        assert await serves(await rig.client(1))
    first = next(iter(gateway.connections))
    monkeypatch.setattr(Connection, "check", check)
    await until(lambda: rig.closed("idle") == 3)
    now_checked = len(checked)
    assert checked[-1] is first
    assert await serves(await rig.client(1))
    await until(lambda: len(checked) > now_checked)
    assert checked[now_checked] is next(iter(gateway.connections))
