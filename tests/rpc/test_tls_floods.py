"""Clients that send TLS records without data, as many as they like: what one turn of the event loop does for them."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.rpc.transport import tls_stream
from libs.rpc.transport.socket_transport import SocketTransport
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_records import DATA_MAX
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.rpc.transport.tls_stream import PAID_BY_DATA, RECORDS_A_TURN, UNPAID_RECORDS_MAX
from libs.rpc.transport.transport import DRIP_BYTES, KERNELS_CHOICE, Stream, TlsFailed
from tests.rpc.stream_owner import Owner
from tests.support.certificates import Authority, client_context
from tests.support.polling import until
from tests.support.tls_records import (
    CLIENT_HELLO,
    DATA,
    HANDSHAKE,
    RecordClient,
    Records12,
    Records13,
)

REFUSAL_BYTES = 31
"""The record of an alert in TLS 1.2: header, nonce, two bytes, tag."""
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class Served:
    """A server with TLS whose only client makes its records itself."""

    def __init__(self, owner: Owner, client: RecordClient) -> None:
        self.owner = owner
        self._client = client
        self.turns = 0
        self._before = owner.stream.receives

    @property
    def records(self) -> Records13 | Records12:
        return self._client.records

    async def send(self, content: bytes) -> None:
        """All of it has arrived before the server reads on."""
        self.owner.stream.pause_reading()
        await asyncio.get_running_loop().sock_sendall(self._client.socket, content)
        self._before = self.owner.stream.receives
        self.owner.stream.resume_reading()

    async def take(self, size: int) -> int:
        """Has the client read so many bytes of records."""
        taken = 0
        async with asyncio.timeout(60):
            while taken < size:
                taken += len(await asyncio.get_running_loop().sock_recv(self._client.socket, size - taken))
        return taken

    def turns_since(self) -> int:
        return self.owner.stream.receives - self._before


@asynccontextmanager
async def served(
    authority: Authority, keystore: Path, directory: Path, version: ssl.TLSVersion = TLS13, *, buffer_bytes: int = KERNELS_CHOICE
) -> AsyncIterator[Served]:
    handshakes = Handshakes()
    server = TlsServer(server_context(TlsSettings(str(keystore))), handshakes, handshake_s_max=10.0)
    owners: list[Owner] = []

    def accept(stream: Stream) -> Owner:
        owners.append(Owner(stream))
        return owners[0]

    listener = await SocketTransport().listen("tcp:127.0.0.1:0", accept, tls=server, send_buffer_bytes=buffer_bytes)
    port = int(listener.address.rpartition(":")[2])
    context = client_context(authority)
    connecting = socket.socket()
    if buffer_bytes != KERNELS_CHOICE:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    connecting.connect(("127.0.0.1", port))
    client = await asyncio.to_thread(RecordClient.shake_hands, connecting, context, directory, version=version)
    with client.socket:
        await until(lambda: bool(owners) and owners[0].stream.tls is not None)
        yield Served(owners[0], client)
    listener.close()
    owners[0].stream.abort(ConnectionResetError("the test is over"))
    await until(lambda: bool(owners[0].lost))
    handshakes.close()


def key_updates(records: Records13 | Records12, count: int) -> bytes:
    assert isinstance(records, Records13)
    return b"".join(records.key_update() for _ in range(count))


async def test_a_flood_of_key_updates_takes_many_turns(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    async with served(authority, keystore, tmp_path) as pair:
        flood = key_updates(pair.records, UNPAID_RECORDS_MAX)
        await pair.send(flood + pair.records.record(DATA, b"ping"))
        await until(lambda: pair.owner.received == b"ping")
        assert pair.turns_since() >= UNPAID_RECORDS_MAX / RECORDS_A_TURN


async def test_a_connection_that_brings_much_without_data_is_closed(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    async with served(authority, keystore, tmp_path) as pair:
        await pair.send(key_updates(pair.records, UNPAID_RECORDS_MAX + 1))
        await until(lambda: bool(pair.owner.lost))
        (reason,) = pair.owner.lost
        assert isinstance(reason, TlsFailed)
        assert str(reason) == f"the client sent more than {UNPAID_RECORDS_MAX} TLS records without data"


async def test_data_pays_for_key_updates(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    async with served(authority, keystore, tmp_path) as pair:
        for number in range(250):
            await pair.send(key_updates(pair.records, PAID_BY_DATA) + pair.records.record(DATA, b"%010d" % number))
        await until(lambda: len(pair.owner.received) == 2_500)
        assert 250 * PAID_BY_DATA > UNPAID_RECORDS_MAX


async def test_a_record_of_one_byte_pays_for_itself_and_few_of_them_are_read_in_a_turn(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    async with served(authority, keystore, tmp_path) as pair:
        sizes: list[int] = []
        pair.owner.on_bytes = lambda: sizes.append(len(pair.owner.received))
        await pair.send(b"".join(pair.records.record(DATA, b"x") for _ in range(8_000)))
        await until(lambda: len(pair.owner.received) == 8_000)
        turns = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
        assert max(turns) <= RECORDS_A_TURN


async def test_large_records_are_read_to_the_end_of_the_buffer_in_one_turn(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    async with served(authority, keystore, tmp_path) as pair:
        await pair.send(b"".join(pair.records.record(DATA, bytes(DATA_MAX)) for _ in range(4)))
        await until(lambda: len(pair.owner.received) == 4 * DATA_MAX == len(pair.owner.chunk))
        assert pair.turns_since() == 1


async def test_a_client_that_would_renegotiate_again_and_again_is_closed(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    async with served(authority, keystore, tmp_path, TLS12) as pair:
        hellos = b"".join(pair.records.record(HANDSHAKE, CLIENT_HELLO) for _ in range(4_500))
        await pair.send(hellos)
        await until(lambda: bool(pair.owner.lost))
        assert "without data" in str(pair.owner.lost[0])
        assert pair.turns_since() >= UNPAID_RECORDS_MAX / RECORDS_A_TURN


async def test_refused_renegotiations_whose_answers_nobody_reads_take_little_memory(
    authority: Authority, keystore: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_stream, "UNSENT_CONTROL_BYTES_MAX", 1_000)
    async with served(authority, keystore, tmp_path, TLS12, buffer_bytes=4_096) as pair:
        owner, sent = pair.owner, 0
        while not owner.lost:
            hellos = b"".join(pair.records.record(HANDSHAKE, CLIENT_HELLO) for _ in range(300))
            await pair.send(hellos + pair.records.record(DATA, b"pays"))
            sent += 4
            await until(lambda: bool(len(owner.received) == sent or owner.lost))  # noqa: B023
        assert str(owner.lost[0]) == "the client does not read what TLS answers"


async def test_what_tls_answers_leaves_once_a_client_reads_again(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    async with served(authority, keystore, tmp_path, TLS12, buffer_bytes=4_096) as pair:
        for sent in (4, 8):  # the second time while the answers to the first wait for room
            hellos = b"".join(pair.records.record(HANDSHAKE, CLIENT_HELLO) for _ in range(600))
            await pair.send(hellos + pair.records.record(DATA, b"pays"))
            await until(lambda: len(pair.owner.received) == sent)  # noqa: B023
        await pair.take(1_200 * REFUSAL_BYTES)


@pytest.mark.parametrize("version", [TLS12, TLS13])
async def test_a_flood_of_empty_records_ends_the_connection(
    authority: Authority, keystore: Path, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    async with served(authority, keystore, tmp_path, version) as pair:
        await pair.send(b"".join(pair.records.record(DATA, b"") for _ in range(100)))
        await until(lambda: bool(pair.owner.lost))
        assert isinstance(pair.owner.lost[0], ssl.SSLError)


async def test_a_handshake_takes_few_bytes_of_a_client(authority: Authority, keystore: Path) -> None:
    handshakes = Handshakes()
    server = TlsServer(server_context(TlsSettings(str(keystore))), handshakes, handshake_s_max=10.0)
    owners: list[Owner] = []

    def accept(stream: Stream) -> Owner:
        owners.append(Owner(stream))
        return owners[0]

    listener = await SocketTransport().listen("tcp:127.0.0.1:0", accept, tls=server)
    hello = b"\x01\0\xff\xff" + bytes(65_535)
    _, writer = await asyncio.open_connection("127.0.0.1", int(listener.address.rpartition(":")[2]))
    writer.write(b"".join(b"\x16\x03\x01\0\x01" + bytes([byte]) for byte in hello))
    await until(lambda: bool(owners and owners[0].lost))
    assert str(owners[0].lost[0]) == f"the handshake took more than {tls_stream.HANDSHAKE_BYTES_MAX} bytes of the client"
    writer.close()
    listener.close()
    handshakes.close()


async def test_the_rest_of_a_record_is_never_waited_for_beyond_its_end(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    async with served(authority, keystore, tmp_path) as peer:
        owner, stream = peer.owner, peer.owner.stream
        stream.receive_at_least(DRIP_BYTES)
        record = peer.records.record(DATA, bytes(2 * DRIP_BYTES))
        await peer.send(record[:-10])
        await until(lambda: peer.turns_since() >= 1)
        assert owner.received == b""
        await peer.send(record[-10:])
        await until(lambda: len(owner.received) == 2 * DRIP_BYTES)
        # The same where the receiver says it when the beginning is there already.
        owner.on_bytes = lambda: stream.receive_at_least(DRIP_BYTES)
        first, second = peer.records.record(DATA, b"x"), peer.records.record(DATA, bytes(DRIP_BYTES))
        await peer.send(first + second[:-10])
        await until(lambda: len(owner.received) == 2 * DRIP_BYTES + 1)
        await peer.send(second[-10:])
        await until(lambda: len(owner.received) == 3 * DRIP_BYTES + 1)
