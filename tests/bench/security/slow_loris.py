"""A slow loris: connections that begin something and never finish it. Each sends one more byte every now and then."""

import enum
import socket
import ssl
import threading
from types import TracebackType

from tests.bench.load import Address, connect
from tests.bench.security.many_clients import open_clients

EVERY_S = 5.0
"""Each connection sends a byte so often."""
STEPS_A_ROUND = 50
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The head of a record of 512 bytes, and of the ClientHello in it (RFC 8446 §4.1.2). The rest comes byte by byte."""
HALF_FRAME = b"\x00\x00\x10\x00\x00\x00\x00\x09"
"""The length of a request of 4 KiB, and its first bytes: a Produce of version 9."""


class Way(enum.Enum):
    PLAIN_FRAMES = "plain-half-frames"
    TLS_HANDSHAKES = "tls-half-handshakes"
    TLS_FRAMES = "tls-half-frames"


class SlowLoris:
    """Use as a context manager: all connections are open at its begin, and a thread of its own goes on with them. What the
    gateway ends comes back."""

    def __init__(self, address: Address, way: Way, count: int, context: ssl.SSLContext) -> None:
        self._address, self._way, self._count, self._context = address, way, count, context
        self._connections: list[socket.socket] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="slow-loris")
        self.ended = 0
        """The connections that the gateway has ended."""

    def __enter__(self) -> "SlowLoris":
        if self._way is Way.TLS_FRAMES:
            self._connections = open_clients(self._address, self._count, self._context)
            for each in self._connections:
                each.send(HALF_FRAME)
        else:
            self._connections = [self._opened() for _ in range(self._count)]
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        for each in self._connections:
            each.close()

    def _opened(self) -> socket.socket:
        made = connect(self._address)
        if self._way is Way.TLS_FRAMES:
            made = self._context.wrap_socket(made, server_hostname=self._address[0])
        made.sendall(CLIENT_HELLO if self._way is Way.TLS_HANDSHAKES else HALF_FRAME)
        made.setblocking(False)
        return made

    def _go_on(self) -> None:
        at, portion = 0, max(1, self._count // STEPS_A_ROUND)
        while not self._is_over.wait(EVERY_S / STEPS_A_ROUND):
            for number in range(at, min(at + portion, self._count)):
                try:
                    self._connections[number].send(b"\0")
                except OSError:
                    self._connections[number].close()
                    self._connections[number] = self._opened()
                    self.ended += 1
            at = (at + portion) % self._count
