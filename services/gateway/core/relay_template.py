"""What a client's requests about one group have in common, learnt from the last of them. No I/O.

A member repeats itself: key, version, client id and group id stand as the same bytes in each of its heartbeats, and in each of
its commits. Comparing them costs a quarter of parsing them. What follows is for the coordinator to read.
"""

import struct

PREFIX_BYTES_MAX = 512
"""Of requests that are worth a shape: each connection keeps one for each API."""

_CORRELATION = slice(4, 8)
_INT32 = struct.Struct(">i")


class RelayShape:
    """`body_at` is where the request begins behind its header; its first field, the group id, ends at `group_end`."""

    __slots__ = ("_group_end", "_head", "_rest", "body_at", "client_id", "group_id", "version")

    def __init__(self, frame: memoryview, body_at: int, group_end: int, version: int, client_id: str, group_id: str) -> None:
        self.version = version
        self.client_id = client_id
        self.group_id = group_id
        self.body_at = body_at
        self._group_end = group_end
        self._head = bytes(frame[: _CORRELATION.start])
        self._rest = bytes(frame[_CORRELATION.stop : group_end])

    def match(self, frame: memoryview) -> int | None:
        """The correlation id. None: it differs. Parse it."""
        if frame[: _CORRELATION.start] != self._head or frame[_CORRELATION.stop : self._group_end] != self._rest:
            return None
        correlation_id: int = _INT32.unpack_from(frame, _CORRELATION.start)[0]
        return correlation_id
