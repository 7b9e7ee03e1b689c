"""Sockets of a hostile client, which sends and never reads."""

import contextlib
import select
import socket

from tests.support.polling import rounds


class Attack:
    """Many sockets at once. A name is what a socket does; it has won when the gateway keeps it open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._poll = select.poll()
        self._open: dict[int, tuple[str, socket.socket]] = {}
        self._unsent: dict[int, memoryview] = {}

    def __enter__(self) -> "Attack":
        return self

    def __exit__(self, *_: object) -> None:
        for _name, connection in self._open.values():
            connection.close()

    def connect(self, name: str, data: bytes = b"", *, receive_buffer: int = 0) -> None:
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self._port))
        connection.setblocking(False)
        number = connection.fileno()
        self._open[number] = name, connection
        self._unsent[number] = memoryview(data)
        self._poll.register(number, select.POLLRDHUP)  # POLLERR and POLLHUP come by themselves; nothing is ever read

    def press(self, *, left: int = 0) -> None:
        """Sends what can be sent, until the gateway has closed all sockets but so many."""
        for _ in rounds(f"connections that the gateway should have closed: {self.names}"):
            if len(self._open) <= left:
                return
            for number, _events in self._poll.poll(20):
                self._poll.unregister(number)
                self._open.pop(number)[1].close()
                self._unsent.pop(number, None)
            self._send()

    def _send(self) -> None:
        for number, data in list(self._unsent.items()):
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sent = self._open[number][1].send(data)
                self._unsent[number] = data[sent:]
            if not self._unsent[number]:
                del self._unsent[number]

    @property
    def names(self) -> list[str]:
        return sorted(name for name, _ in self._open.values())


class Trickle(Attack):
    """A byte now and then, which must not buy time."""

    def _send(self) -> None:
        for number, data in self._unsent.items():
            if data:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    self._open[number][1].send(data[:1])
                self._unsent[number] = data[1:]
