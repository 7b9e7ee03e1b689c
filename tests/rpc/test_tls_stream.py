"""Streams with TLS whose peers misbehave."""

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path

import pytest

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.event_loop import EventLoop
from libs.rpc.transport.tls_handshakes import Handshakes, Outcome, Step
from libs.rpc.transport.tls_server import CHUNK, LAST_CHUNK, TlsServer, TlsSettings, server_context
from libs.rpc.transport.tls_stream import TlsStream
from tests.rpc.stream_owner import Owner
from tests.rpc.tls_pair import tls_pair
from tests.support.certificates import Authority, client_context
from tests.support.polling import until


class ToldLater(Handshakes):
    """Steps are computed at once. Streams hear of them when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.computed: list[tuple[Step, Outcome]] = []

    def add(self, step: Step, *, is_new: bool) -> None:
        outcome: Outcome = None
        try:
            step.compute()
        except Exception as error:
            outcome = error
        self.computed.append((step, outcome))


class Watched(TlsServer):
    """Shows what OpenSSL has for the peer of its newest stream."""

    outgoing: ssl.MemoryBIO

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        self.outgoing = outgoing
        return super().wrap(incoming, outgoing)


@pytest.fixture
def long_keystore(authority: Authority, keystore: Path, tmp_path: Path) -> Path:
    """Its chain does not fit into small buffers of sockets."""
    (tmp_path / "long.pem").write_bytes(keystore.read_bytes() + 100 * authority.certificate.read_bytes())
    return tmp_path / "long.pem"


async def test_a_flight_that_the_client_takes_late_is_sent_without_what_a_thread_is_writing(
    authority: Authority, long_keystore: Path
) -> None:
    loop, handshakes = asyncio.get_running_loop(), ToldLater()
    tls = Watched(server_context(TlsSettings(str(long_keystore))), handshakes, handshake_s_max=10.0)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    with socket.create_server(("127.0.0.1", 0)) as listening, client:
        client.connect(listening.getsockname())
        client.setblocking(False)
        connected, _ = listening.accept()
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)
        owner = Owner(TlsStream(connected, tls, peer="tcp:127.0.0.1:1", disks=DiskReaders()))
        owner.stream.start(owner)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        speaking = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            speaking.do_handshake()
        client.send(outgoing.read())
        await until(lambda: bool(handshakes.computed))
        flight = tls.outgoing.pending
        step, outcome = handshakes.computed.pop()
        step.on_computed(outcome)  # sends as much as there is room for
        client.send(b"\x14\x03\x03\0\x01\x01")  # a change of ciphers, which means nothing in TLS 1.3, is the next step
        await until(lambda: bool(handshakes.computed))
        tls.outgoing.write(b"by a thread")
        taken = 0
        while taken < flight:
            taken += len(await loop.sock_recv(client, 65_536))
        assert taken == flight
        assert tls.outgoing.pending == len(b"by a thread")
        client.close()
        await until(lambda: owner.stream.peer_ended)
        assert not handshakes.computed[0][0].is_gone(), "what the client sent before its end may say why"
        owner.stream.abort(ConnectionResetError("it is over"))
        await until(lambda: bool(owner.lost))
    handshakes.close()


async def test_a_handshake_whose_connection_has_ended_makes_no_other_connection_deaf(keystore: Path) -> None:
    loop, handshakes = asyncio.get_running_loop(), ToldLater()
    tls = TlsServer(server_context(TlsSettings(str(keystore))), handshakes, handshake_s_max=10.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        connected, _ = listening.accept()
    connected.setblocking(False)
    fd = connected.fileno()
    owner = Owner(TlsStream(connected, tls, peer="tcp:127.0.0.1:1", disks=DiskReaders()))
    owner.stream.start(owner)
    with client:
        client.sendall(b"\x16\x03\x01\0\x04\x01\0\x01\0")
        await until(lambda: bool(handshakes.computed))
        (step, _) = handshakes.computed[0]
        assert (step.host, step.is_gone()) == ("tcp:127.0.0.1", False)
    await until(step.is_gone)
    owner.stream.abort(ConnectionResetError("it is over"))
    await until(lambda: bool(owner.lost))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.dup2(ours.fileno(), fd)  # the next connection has the same descriptor
        heard = asyncio.Event()
        loop.add_reader(fd, heard.set)
        for step, outcome in handshakes.computed:
            step.on_computed(outcome)
        theirs.send(b"x")
        await until(heard.is_set)
        loop.remove_reader(fd)
        os.close(fd)
    handshakes.close()


def test_reading_that_goes_on_when_an_answer_has_left_waits_for_no_event(authority: Authority, keystore: Path) -> None:
    """When streams send, the loop has reckoned how long to sleep. What OpenSSL holds gives epoll no event, and nobody else here
    gives one."""

    async def body() -> bool:
        async with tls_pair(authority, keystore) as (here, there):
            here.stream.pause_reading()  # what is answered must wake nobody
            there.chunk = bytearray(100)
            there.on_bytes = there.stream.pause_reading
            here.stream.write(bytes(300))  # one record, of which OpenSSL keeps 200 bytes
            await until(lambda: not there.stream.reading)
            done = asyncio.Event()
            there.on_bytes = done.set
            there.stream.on_flushed = there.stream.resume_reading
            there.stream.write(b"answer")
            timer = asyncio.get_running_loop().call_later(5, lambda: None)  # if the loop sleeps until then, it is over
            await done.wait()
            there.stream.on_flushed = None
            timer.cancel()
            return asyncio.get_running_loop().time() < timer.when()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(body())


@pytest.mark.parametrize(
    ("length", "sends"),
    [(CHUNK, 1), (CHUNK + 1, 1), (LAST_CHUNK, 1), (LAST_CHUNK + 1, 2), (CHUNK + LAST_CHUNK, 2), (CHUNK + LAST_CHUNK + 1, 3)],
)
@pytest.mark.parametrize("header_bytes", [0, 100, None], ids=["a file range", "a header and a file range", "a buffer"])
async def test_a_rest_of_one_record_leaves_with_the_chunk_before_it(
    authority: Authority, keystore: Path, tmp_path: Path, length: int, sends: int, header_bytes: int | None
) -> None:
    sent = bytes(range(251)) * (length // 251 + 1)
    (tmp_path / "segment").write_bytes(sent)
    async with tls_pair(authority, keystore) as (here, there):
        sends_before, sent_before = there.stream.sends, there.stream.bytes_sent
        if header_bytes is None:
            there.stream.write(sent[:length])
        else:
            if header_bytes:
                there.stream.write(sent[:header_bytes])
            fd, in_file = os.open(tmp_path / "segment", os.O_RDONLY), length - header_bytes
            there.stream.write_file(fd, header_bytes, in_file, lambda _: os.close(fd), cached=in_file)
        await until(lambda: len(here.received) == length)
        assert here.received == sent[:length]
        assert there.stream.bytes_sent - sent_before == length
        assert there.stream.sends - sends_before == sends
        assert there.stream.pending_bytes == 0
