"""A listener with TLS: who is served, what is closed and said, and how many handshakes it takes on."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from libs.runtime.lifecycle import CannotRun
from libs.wire.errors import ErrorCode
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import METADATA, RawClient
from tests.gateway.limited_clients import produced
from tests.gateway.sasl_rig import ALL, connect, log_in
from tests.gateway.tls_rig import TLS_AT, closed_lines, shown, started, started_with_sasl
from tests.support.certificates import Authority, client_context
from tests.support.polling import until
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT
from tests.support.tls_records import RecordClient, Records13


@pytest.fixture
def tls(authority: Authority) -> ssl.SSLContext:
    return client_context(authority)


async def port_of_broker(client: RawClient) -> int:
    """As Metadata names it."""
    client.ask(METADATA, 1, b"\0\0\0\0")
    reader = (await client.answer(METADATA, 1))[1]
    reader.int32()
    reader.int32()
    assert reader.string(False) == "127.0.0.1"
    return reader.int32()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("broker_id", [0, 1])
async def test_a_client_is_served_over_tls(
    rig: Rig, keystore: Path, tls: ssl.SSLContext, version: ssl.TLSVersion, broker_id: int
) -> None:
    gateway = await started(rig, keystore)
    tls.minimum_version = tls.maximum_version = version
    client = await rig.client(TLS_AT + broker_id, tls=tls)
    assert await produced(client) == 0
    assert await port_of_broker(client) == rig.port_base + TLS_AT + 1, "the listener that it uses"
    (connection,) = shown(gateway)
    assert (connection["listener"], connection["principal"]) == ("SSL", "User:ANONYMOUS")
    assert str(connection["tls"]).startswith("TLSv1.3 " if version is ssl.TLSVersion.TLSv1_3 else "TLSv1.2 ")
    assert await port_of_broker(await rig.client()) == rig.port_base + 1


@pytest.mark.parametrize("mechanism", ALL)
async def test_a_user_logs_in_over_tls(rig: Rig, keystore: Path, tls: ssl.SSLContext, mechanism: str) -> None:
    gateway = await started_with_sasl(rig, keystore)
    client = await connect(rig, tls=tls)
    assert await log_in(client, mechanism=mechanism) == ErrorCode.NONE
    assert await produced(client) == 0
    (connection,) = shown(gateway)
    assert (connection["listener"], connection["principal"]) == ("SASL_SSL", "User:u")
    assert await log_in(await connect(rig, tls=tls), password="wrong") == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_the_listener_that_asks_nobody_can_be_left_out(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    await started_with_sasl(rig, keystore, plaintext_listener=False)
    client = await connect(rig, tls=tls)
    assert await log_in(client) == ErrorCode.NONE
    assert await produced(client) == 0
    for broker_id in (0, 1):
        with pytest.raises(ConnectionRefusedError):
            await rig.client(broker_id)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\0\0\0\x10" + bytes(16), "tls: plaintext on a TLS port"),
        (b"\0", "tls: plaintext on a TLS port"),
        (b"GET / HTTP/1.1\r\n\r\n", "tls: HTTP on a Kafka port"),
        (b"\x16\x03\x01\0\x02\x01\x00", "tls: "),
    ],
)
async def test_what_is_no_tls_is_closed_and_said_once(
    rig: Rig, keystore: Path, tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    await started(rig, keystore)
    bystander = await rig.client(TLS_AT, tls=tls)
    for _ in range(2):
        client = await rig.client(TLS_AT)
        client.send(sent)
        if sent[0] == 0x16:
            await client.drain()
            client.end()
        assert await client.ended()
    await until(lambda: rig.closed("tls") == 2)
    (line,) = closed_lines(caplog)
    assert line.startswith(words)
    assert await produced(bystander) == 0


async def test_tls_on_a_plaintext_port_is_closed_and_said(
    rig: Rig, keystore: Path, tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    await started(rig, keystore)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(tls=tls)
    (line,) = closed_lines(caplog)
    assert line.startswith("frame: TLS on a plaintext port")


async def test_a_client_that_does_not_trust_the_certificate_is_said(
    rig: Rig, keystore: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await started(rig, keystore)

    def connect_in_vain() -> None:  # asyncio's client does not tell the reason to the other end
        with socket.create_connection(("127.0.0.1", rig.port_base + TLS_AT)) as connected, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(connected, server_hostname="localhost")

    await asyncio.to_thread(connect_in_vain)
    await until(lambda: rig.closed("tls") == 1)
    assert closed_lines(caplog) == ["tls: the client does not trust the authority of the gateway's certificate"]


async def test_a_version_of_tls_that_is_not_enabled_is_refused(
    rig: Rig, keystore: Path, tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    await started(rig, keystore, ssl_enabled_protocols=("TLSv1.3",))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(TLS_AT, tls=tls)
    await until(lambda: closed_lines(caplog) == ["tls: the client's versions of TLS are not enabled"])


@pytest.mark.parametrize("sent", [b"", b"\x16", bytes.fromhex("16030100f5010000f10303")])
async def test_a_half_open_handshake_ends_in_time(
    rig: Rig, keystore: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    gateway = await started(rig, keystore, tls_handshake_s_max=0.05)
    client = await rig.client(TLS_AT)
    client.send(sent)
    assert await client.ended()
    await until(lambda: len(gateway.connections) == 0)
    assert closed_lines(caplog) == ["tls: the handshake took longer than 0.05 s"]


async def test_what_the_page_prints_counts_half_open_handshakes_by_host(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    gateway = await started(rig, keystore)
    whole = await rig.client(TLS_AT, tls=tls)
    assert await produced(whole) == 0
    half = [await rig.client(TLS_AT) for _ in range(3)]
    half[0].send(b"\x16")
    await until(lambda: len(gateway.connections) == 4)
    page = (ROOT / "docs" / "operate" / "logs-and-views.md").read_text(encoding="utf-8")
    (block,) = blocks_of(section_of(page, "A flood of half-open TLS connections"))
    script = block.text.partition("python3 -c '")[2].rpartition("'")[0]
    views = json.dumps(gateway.connection_views.connections())
    counted = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], input=views, capture_output=True, encoding="utf-8", check=True
    )
    assert counted.stdout == "3 tcp:127.0.0.1\n"


async def test_two_hundred_slow_handshakes_hold_up_nobody(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    gateway = await started(rig, keystore)
    slow = [await rig.client(TLS_AT) for _ in range(200)]
    for client in slow:
        client.send(bytes.fromhex("16030100f5010000f10303"))
    await until(lambda: len(gateway.connections) == 200)
    for _ in range(3):
        assert await produced(await rig.client(TLS_AT, tls=tls)) == 0


async def test_a_client_that_sends_key_updates_and_no_requests_is_closed_and_holds_up_nobody(
    rig: Rig, keystore: Path, tls: ssl.SSLContext, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await started(rig, keystore)
    bystander = await rig.client(TLS_AT, tls=tls)

    def shake_hands() -> RecordClient:
        connected = socket.create_connection(("127.0.0.1", rig.port_base + TLS_AT))
        return RecordClient.shake_hands(connected, client_context(authority), tmp_path, version=ssl.TLSVersion.TLSv1_3)

    client = await asyncio.to_thread(shake_hands)
    with client.socket:
        assert isinstance(client.records, Records13)
        flood = b"".join(client.records.key_update() for _ in range(5_000))
        await asyncio.get_running_loop().sock_sendall(client.socket, flood)
        assert await produced(bystander) == 0
        await until(lambda: rig.closed("tls") == 1)
    assert closed_lines(caplog) == ["tls: the client sent more than 4096 TLS records without data"]
    assert await produced(bystander) == 0


async def test_many_clients_come_at_once_and_each_is_served(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    gateway = await started(rig, keystore)
    clients = await asyncio.gather(*(rig.client(TLS_AT, tls=tls) for _ in range(50)))
    assert await asyncio.gather(*(produced(client) for client in clients)) == [0] * 50
    assert len(gateway.connections) == 50


async def test_a_gateway_stops_with_handshakes_under_way(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    gateway = await started(rig, keystore)
    client = await rig.client(TLS_AT)
    client.send(bytes.fromhex("16030100f5010000f10303"))
    served = await rig.client(TLS_AT, tls=tls)
    assert await produced(served) == 0
    await until(lambda: len(gateway.connections) == 2)
    gateway.listeners.close()
    await gateway.connections.drain()
    assert await client.ended()
    assert await served.ended()
    assert rig.closed("drain") == 2


async def test_a_keystore_that_cannot_be_served_ends_the_start_with_a_sentence(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"TLS cannot be served: .* cannot be read: No such file"):
        await started(rig, tmp_path / "nothing")


async def test_a_connection_that_is_refused_for_a_while_costs_no_handshake(rig: Rig, keystore: Path, tls: ssl.SSLContext) -> None:
    gateway = await started(rig, keystore, connections_per_ip_max=2)
    first = await rig.client(TLS_AT, tls=tls)
    second = await rig.client(TLS_AT, tls=tls)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(TLS_AT, tls=tls)
    assert [await produced(first), await produced(second)] == [0, 0]
    assert len(gateway.connections) == 2
