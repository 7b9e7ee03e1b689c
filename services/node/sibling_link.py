"""The connection between two nodes of one host. Each of its messages is a packet, with the listening sockets that it names."""

import array
import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from libs.rpc.transport.descriptors import CLOSED_ON_EXEC
from libs.telemetry.logs import fields

log = logging.getLogger("network")

Sockets = dict[str, socket.socket]
"""The listening sockets of one broker's ports, by the listener's name."""

LISTENERS_MAX: Final = 8
MESSAGE_BYTES_MAX: Final = 4096


def copies(sockets: Mapping[str, socket.socket]) -> Sockets:
    """Descriptors of their own. `socket.dup` would switch the sockets themselves to blocking, in all processes that have them.
    Raises OSError if there are none left."""
    made: Sockets = {}
    try:
        for name, each in sockets.items():
            made[name] = socket.socket(fileno=os.dup(each.fileno()))
    except OSError:
        close_all(made)
        raise
    return made


def close_all(sockets: Mapping[Any, socket.socket]) -> None:
    for each in sockets.values():
        each.close()


class SiblingLink:
    """`on_end` is called when the sibling has closed it, or what came cannot be used. It does not close itself."""

    def __init__(
        self,
        connected: socket.socket,
        on_message: Callable[["SiblingLink", dict[str, Any], Sockets], None],
        on_end: Callable[["SiblingLink"], None],
    ) -> None:
        self._socket, self._on_message, self._on_end = connected, on_message, on_end
        self._loop = asyncio.get_running_loop()
        self.node_id: int | None = None
        """None: it has not told yet."""
        self.serves = False
        """The sibling's own ports are open, so it has an image and may have the ports of others."""
        self.has_told = False
        """Something has come over it."""
        self.returned: asyncio.Future[Sockets] | None = None
        self._loop.add_reader(connected.fileno(), self._readable)

    def send(self, message: dict[str, object], sockets: Mapping[str, socket.socket]) -> None:
        packet = json.dumps({**message, "listeners": list(sockets)}).encode()
        try:
            socket.send_fds(self._socket, [packet], [each.fileno() for each in sockets.values()])
        except OSError:
            self._loop.call_soon(self._on_end, self)  # it is gone, or reads nothing

    def _readable(self) -> None:
        try:
            # A socket that a program which this process starts had too would keep its port open behind it.
            room = socket.CMSG_SPACE(LISTENERS_MAX * 4)
            packet, ancillary, flags, _ = self._socket.recvmsg(MESSAGE_BYTES_MAX, room, CLOSED_ON_EXEC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            packet, ancillary, flags = b"", [], 0
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        received = [socket.socket(fileno=each) for each in descriptors]
        if not packet:
            self._on_end(self)
            return
        self.has_told = True
        try:
            message = json.loads(packet)
            if flags & socket.MSG_CTRUNC:
                raise ValueError("descriptors were cut off")
            self._on_message(self, message, dict(zip(message["listeners"], received, strict=True)))
        except (ValueError, KeyError, TypeError) as error:
            close_all(dict(enumerate(received)))
            log.info("a sibling's message cannot be used", extra=fields(reason=error))
            self._on_end(self)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        if self.returned is not None and not self.returned.done():
            self.returned.set_result({})
