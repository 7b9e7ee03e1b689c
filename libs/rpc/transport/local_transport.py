"""The transport of services that share a process and an event loop: sockets, with a link beside those between two of them."""

import socket
from collections.abc import Callable

from libs.rpc.transport.frame_link import join
from libs.rpc.transport.peer_tls import PeerTls
from libs.rpc.transport.socket_transport import SocketListener, SocketTransport
from libs.rpc.transport.tls_server import TlsServer
from libs.rpc.transport.transport import KERNELS_CHOICE, SILENCE_S, Receiver, Stream


class LocalTransport(SocketTransport):
    """One for all services of the process. A connection to a Unix socket of its own has a link; others are as elsewhere."""

    def __init__(self, *, silence_s: float = SILENCE_S, peer_tls: PeerTls | None = None) -> None:
        super().__init__(silence_s=silence_s, peer_tls=peer_tls)
        self._own: dict[str, Callable[[Stream], Receiver]] = {}  # by address

    async def listen(
        self,
        address: str,
        on_stream: Callable[[Stream], Receiver],
        *,
        send_buffer_bytes: int = KERNELS_CHOICE,
        tls: TlsServer | None = None,
    ) -> SocketListener:
        listener = await super().listen(address, on_stream, send_buffer_bytes=send_buffer_bytes, tls=tls)
        if listener.is_unix:
            self._own[listener.address] = on_stream
            listener.on_close = lambda: self._own.pop(listener.address, None)
        return listener

    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        on_stream = self._own.get(address)
        if on_stream is None:
            return await super().connect(address, receiver_factory, timeout_s)
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        try:
            stream = self._stream(ours, address)
            join(stream, self._stream(theirs, address), on_stream, receiver_factory)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        return stream
