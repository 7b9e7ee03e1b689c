"""Streams with TLS whose peers misbehave."""

import asyncio
import os
import socket
from pathlib import Path

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.tls_handshakes import Handshakes, Outcome, Step
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.rpc.transport.tls_stream import TlsStream
from tests.rpc.stream_owner import Owner
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
