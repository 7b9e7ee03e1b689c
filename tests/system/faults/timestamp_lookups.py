"""Clients that look up timestamps one after the other, each on a connection of its own."""

import socket
import struct
import threading

from tests.gateway.kafka_client import frame

LIST_OFFSETS = 2
VERSION = 2


class TimestampLookups:
    """The connections for the length of a `with`. At its end the clients hang up, whatever they wait for."""

    def __init__(self, port: int, topic: str, timestamp: int, *, connections: int) -> None:
        name = topic.encode()
        body = struct.pack(">ibih", -1, 0, 1, len(name)) + name + struct.pack(">iiq", 1, 0, timestamp)
        self._request = frame(LIST_OFFSETS, VERSION, 1, body)
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        self._threads = [threading.Thread(target=self._work, args=(each,)) for each in self._sockets]
        self._stopping = threading.Event()
        self.answers: list[tuple[int, int]] = []
        """(error, offset)"""

    def __enter__(self) -> "TimestampLookups":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for each in self._sockets:
            each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _work(self, connection: socket.socket) -> None:
        try:
            while not self._stopping.is_set():
                connection.sendall(self._request)
                head = connection.recv(4, socket.MSG_WAITALL)
                answer = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                error, _, offset = struct.unpack(">hqq", answer[-18:])
                self.answers.append((error, offset))
        except (OSError, struct.error):
            if not self._stopping.is_set():
                raise
