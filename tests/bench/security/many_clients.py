"""Thousands of client connections from one thread, with TLS or without."""

import selectors
import socket
import ssl
import struct
import time

from tests.bench.load import Address, BenchError

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""A whole request: version 0, correlation id 1, no client id."""
CONNECTING_MAX = 100
"""The connections that are on their way at a time: a listener's backlog is no part of what is measured."""
WITHIN_S = 300.0


class Client:
    """One connection that asks for ApiVersions once, and then holds still. `advance` does what it can without waiting."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(address)
        self._context, self._host = context, address[0]
        self._is_secured = context is None
        self._is_asked = False
        self._answer = b""

    def advance(self) -> int:
        """Returns the events to wait for, or 0 if the answer is there."""
        try:
            if not self._is_secured:
                self._shake_hands()
                self._is_secured = True
            if not self._is_asked:
                self.socket.send(API_VERSIONS)
                self._is_asked = True
            while len(self._answer) < 4 or len(self._answer) < 4 + struct.unpack_from(">i", self._answer)[0]:
                received = self.socket.recv(65_536)
                if not received:
                    raise BenchError("the gateway closed a connection")
                self._answer += received
        except (ssl.SSLWantReadError, BlockingIOError):
            return selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            return selectors.EVENT_WRITE
        return 0

    def _shake_hands(self) -> None:
        if not isinstance(self.socket, ssl.SSLSocket):
            assert self._context is not None
            # The descriptor stays.
            self.socket = self._context.wrap_socket(self.socket, server_hostname=self._host, do_handshake_on_connect=False)
        self.socket.do_handshake()


def open_clients(address: Address, count: int, context: ssl.SSLContext | None) -> list[socket.socket]:
    """Connections that were each served once. Raises BenchError, and closes them then."""
    clients: list[Client] = []
    try:
        _serve_each(clients, address, count, context)
    except BaseException:
        for client in clients:
            client.socket.close()
        raise
    return [client.socket for client in clients]


def _serve_each(clients: list[Client], address: Address, count: int, context: ssl.SSLContext | None) -> None:
    deadline, done = time.monotonic() + WITHIN_S, 0
    with selectors.EpollSelector() as selector:
        while done < count:
            while len(clients) < count and len(clients) - done < CONNECTING_MAX:
                client = Client(address, context)
                clients.append(client)
                selector.register(client.socket.fileno(), selectors.EVENT_WRITE, client)
            if time.monotonic() > deadline:
                raise BenchError(f"{count - done} of {count} connections were not served within {WITHIN_S:.0f} s")
            for key, _ in selector.select(1.0):
                if wanted := key.data.advance():
                    selector.modify(key.fd, wanted, key.data)
                else:
                    selector.unregister(key.fd)
                    done += 1
