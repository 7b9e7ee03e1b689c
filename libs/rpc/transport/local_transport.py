"""The transport of services that share a process and an event loop: sockets, with a link beside those between two of them."""

import socket
from collections.abc import Callable

from libs.rpc.transport.frame_link import linked_ends
from libs.rpc.transport.socket_transport import SocketListener, SocketTransport
from libs.rpc.transport.tls_server import TlsServer
from libs.rpc.transport.transport import KERNELS_CHOICE, SILENCE_S, Receiver, Stream


class LocalTransport(SocketTransport):
    """One for all services of the process. A connection to a Unix socket of its own has a link; others are as elsewhere."""

    def __init__(self, *, silence_s: float = SILENCE_S) -> None:
        super().__init__(silence_s=silence_s)
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
            stream, accepted = self._stream(ours, address), self._stream(theirs, address)
            stream.link, accepted.link = linked_ends(stream.abort, accepted.abort)
            receiver = on_stream(accepted)
            if accepted.link.on_frames is None:  # who accepts it speaks another protocol
                stream.link = None
            caller = receiver_factory(stream)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        accepted.start(receiver)
        stream.start(caller)
        return stream
