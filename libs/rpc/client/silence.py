"""Silence on a client's connection: calls are under way, and nothing comes from the server. Pure.

A connection that only one side hears, and a process that is stopped, look alike from here: no answer, no error. TCP itself gives
up after minutes. The client looks at the connection every `LOOK_S`. After one look without anything received it calls `PING`,
which any server answers at once. After as many looks as `silence_s` has it ends the connection.

Looks are counted, and not seconds. A loop that was stalled itself looks once, and reads what has arrived before it looks again.
"""

from enum import Enum
from typing import Final

PING: Final = "ping"
"""A method that no server has. Each one answers the call with an error, which is all that is asked for."""
LOOK_S: Final = 0.4


class Finding(Enum):
    """What one look finds."""

    HEARD = "heard"
    PING = "ping"
    """The client should ping now."""
    QUIET = "quiet"
    """A ping is under way."""
    SILENT = "silent"
    """The server has been silent for too many looks: end the connection."""


def looks_in(silence_s: float) -> int:
    """The looks after which a server has been silent for `silence_s`."""
    return max(2, round(silence_s / LOOK_S))


class Silence:
    """The looks at one connection. Set `heard` when anything is received."""

    __slots__ = ("_looks", "_looks_max", "_pending", "_sent", "heard")

    def __init__(self, looks_max: int) -> None:
        """`looks_max` is of `looks_in`."""
        self._looks_max = looks_max
        self.heard = False
        self._looks = 0
        self._pending = self._sent = 0

    def begin(self) -> None:
        """Begins to count: from now on calls are under way."""
        self.heard = False
        self._looks = self._pending = self._sent = 0

    def look(self, bytes_sent: int, pending_bytes: int) -> Finding:
        """`bytes_sent` and `pending_bytes` are the stream's: a server that reads a long backlog has not come to the ping yet."""
        reads = self._pending > 0 and pending_bytes > 0 and bytes_sent > self._sent
        self._pending, self._sent = pending_bytes, bytes_sent
        if self.heard or reads:
            self.heard = False
            self._looks = 0
            return Finding.HEARD
        self._looks += 1
        if self._looks >= self._looks_max:
            return Finding.SILENT
        return Finding.PING if self._looks == 1 else Finding.QUIET
