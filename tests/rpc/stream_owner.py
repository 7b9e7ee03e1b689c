"""An owner of a stream that records what it is told, and the two ends of one connection."""

from collections.abc import Callable

from libs.rpc.transport.socket_stream import SocketStream
from libs.rpc.transport.transport import Stream


class Owner:
    """A receiver that records all calls."""

    def __init__(self, stream: Stream) -> None:
        assert isinstance(stream, SocketStream)
        self.stream: SocketStream = stream
        self.chunk = bytearray(65_536)
        self.received = bytearray()
        self.fds: list[int] = []
        self.lost: list[Exception | None] = []
        self.ready = 0
        self.on_bytes: Callable[[], None] = lambda: None

    def get_buffer(self) -> memoryview:
        return memoryview(self.chunk)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.chunk[:nbytes]
        self.on_bytes()

    def descriptors_received(self, fds: list[int] | None) -> None:
        assert fds is not None
        self.fds += fds

    def write_ready(self) -> None:
        self.ready += 1

    def connection_lost(self, reason: Exception | None) -> None:
        self.lost.append(reason)


Pair = tuple[Owner, Owner]
