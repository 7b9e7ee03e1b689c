"""Clients that send a few bytes now and then. Those that complete nothing stay in the kernel, and cost no turn of the loop."""

import asyncio
import fcntl
import socket
import ssl
import struct
import termios
from pathlib import Path

import pytest

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.rpc.transport.tls_stream import TlsStream
from libs.rpc.transport.transport import DRIP_BYTES
from tests.rpc.stream_owner import Owner, Pair
from tests.support.certificates import Authority, client_context
from tests.support.polling import until

ON_TCP = pytest.mark.parametrize("pair_address", ["tcp:127.0.0.1:0", "tls"])
TURNS = 5


def unread(connected: socket.socket) -> int:
    """The bytes that wait in the kernel."""
    size: int = struct.unpack("i", fcntl.ioctl(connected, termios.FIONREAD, bytes(4)))[0]
    return size


async def send_in_vain(here: Owner, there: Owner) -> None:
    """A byte arrives, and the other end has no turn for it."""
    turns = there.stream.receives
    here.stream.write(b"x")
    await until(lambda: not here.stream.pending_bytes)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert there.stream.receives == turns


@ON_TCP
async def test_a_receiver_that_needs_more_has_no_turn_for_a_few_bytes(pair: Pair) -> None:
    here, there = pair
    there.stream.receive_at_least(100)
    for _ in range(3):
        await send_in_vain(here, there)
    here.stream.write(bytes(97))
    await until(lambda: len(there.received) == 100)
    there.stream.receive_at_least(1)
    here.stream.write(b"x")
    await until(lambda: len(there.received) == 101)


@ON_TCP
async def test_what_waits_is_received_once_a_receiver_needs_less(pair: Pair) -> None:
    here, there = pair
    there.stream.receive_at_least(100)
    await send_in_vain(here, there)
    there.stream.receive_at_least(1)
    await until(lambda: there.received == b"x")


@ON_TCP
async def test_the_end_comes_to_a_receiver_that_needs_more(pair: Pair) -> None:
    here, there = pair
    there.stream.receive_at_least(DRIP_BYTES)
    await send_in_vain(here, there)
    here.stream.close()
    await until(lambda: bool(there.lost))
    assert (bytes(there.received), there.lost) == (b"x", [None])


async def test_a_handshake_that_comes_byte_by_byte_has_a_turn_for_its_end(authority: Authority, keystore: Path) -> None:
    handshakes = Handshakes()
    tls = TlsServer(server_context(TlsSettings(str(keystore))), handshakes, handshake_s_max=10.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        connected, _ = listening.accept()
    connected.setblocking(False)
    owner = Owner(TlsStream(connected, tls, peer="tcp:127.0.0.1:1", disks=DiskReaders()))
    owner.stream.start(owner)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    speaking = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        speaking.do_handshake()
    hello = outgoing.read()
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(hello[:11])
        await until(lambda: unread(connected) == 0)
        for count in range(1, 21):
            client.sendall(hello[10 + count : 11 + count])
            await until(lambda: unread(connected) == count)  # noqa: B023
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert unread(connected) == count
        client.sendall(hello[31:])
        while owner.stream.tls is None:
            client.setblocking(False)
            incoming.write(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 65_536), 10))
            try:
                speaking.do_handshake()
            except ssl.SSLWantReadError:
                continue
            client.sendall(outgoing.read())
            await until(lambda: owner.stream.tls is not None)
        speaking.write(b"x")
        client.sendall(outgoing.read())
        await until(lambda: owner.received == b"x")
    owner.stream.abort(ConnectionResetError("it is over"))
    await until(lambda: bool(owner.lost))
    handshakes.close()
