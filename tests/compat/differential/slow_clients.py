"""Clients that hold a connection without using it as one should: the system may wait for ever, or not."""

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tests.compat.differential.messages import encode_request
from tests.compat.differential.systems import System

UNREAD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Behaviour:
    difference: str
    begin: Callable[[System], socket.socket]


def _half_a_frame(system: System) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", system.port), timeout=60)
    connection.sendall(encode_request("metadata", 12, {}, correlation_id=1)[:-1])
    return connection


def _answers_left_unread(system: System) -> socket.socket:
    """Asks until the system takes no more, with room for few answers on this side."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", system.port))
    connection.setblocking(False)
    requests = memoryview(encode_request("metadata", 12, {"topics": None}, correlation_id=1) * 1000)
    sent = 0
    while sent < UNREAD_BYTES and select.select([], [connection], [], 1.0)[1]:
        try:
            sent += connection.send(requests[sent % len(requests) :])
        except BlockingIOError:
            continue
        except ConnectionError:
            break  # it had enough before it took no more
    return connection


def is_closed(connection: socket.socket, *, within_s: float) -> bool:
    """Whether the connection is closed, found without reading: bytes before the end would have to be read first."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(within_s * 1000))


ALL = (Behaviour("half-frames", _half_a_frame), Behaviour("unread-answers", _answers_left_unread))
