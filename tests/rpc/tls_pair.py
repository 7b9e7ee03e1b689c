"""The two ends of a connection with TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.socket_transport import SocketTransport, parse_address
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.rpc.transport.tls_stream import TlsStream
from libs.rpc.transport.transport import Stream
from tests.rpc.stream_owner import Owner, Pair
from tests.support.certificates import Authority, client_context
from tests.support.polling import until


class TlsClient(TlsServer):
    """The client's side, for a stream that connects."""

    speaks_first = True

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing, server_hostname="localhost")


@asynccontextmanager
async def tls_pair(authority: Authority, keystore: Path) -> AsyncIterator[Pair]:
    handshakes = Handshakes()
    server = TlsServer(server_context(TlsSettings(str(keystore))), handshakes, handshake_s_max=10.0)
    client = TlsClient(client_context(authority), handshakes, handshake_s_max=10.0)
    accepted: list[Owner] = []

    def accept(stream: Stream) -> Owner:
        accepted.append(Owner(stream))
        return accepted[0]

    listener = await SocketTransport().listen("tcp:127.0.0.1:0", accept, tls=server)
    connecting = socket.socket()
    connecting.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connecting, parse_address(listener.address)[1])
    stream = TlsStream(connecting, client, peer=listener.address, disks=DiskReaders())
    here = Owner(stream)
    stream.start(here)
    await until(lambda: bool(accepted) and accepted[0].stream.tls is not None and stream.tls is not None)
    yield here, accepted[0]
    listener.close()
    for owner in (here, accepted[0]):
        owner.stream.abort(ConnectionResetError("the test is over"))
        await until(lambda: len(owner.lost) == 1)  # noqa: B023
        for fd in owner.fds:
            os.close(fd)
    handshakes.close()
