"""The template of a client's requests about one group or transactional id, learnt from the last of them. No I/O.

A member repeats API key, version, client id and group id as the same bytes in each of its heartbeats and commits. Comparing them
costs a quarter of parsing them. The coordinator reads the bytes behind them.
"""

PREFIX_BYTES_MAX = 512
"""The longest prefix that a template keeps. Each connection has one template for each API."""

_CORRELATION = slice(4, 8)


class RelayTemplate:
    """The template of one API and one `key`: a group, or a transactional id. The body begins at `body_at`, behind the header; the
    key is among its first fields, and ends at `key_end`."""

    __slots__ = ("_body_at", "_head", "_key_end", "_rest", "client_id", "key", "version")

    def __init__(self, frame: memoryview, body_at: int, key_end: int, version: int, client_id: str, key: str) -> None:
        self.version = version
        self.client_id = client_id
        self.key = key
        self._body_at = body_at
        self._key_end = key_end
        self._head = bytes(frame[: _CORRELATION.start])
        self._rest = bytes(frame[_CORRELATION.stop : key_end])

    def match(self, frame: memoryview) -> memoryview | None:
        """The body. None: the frame differs, and must be parsed."""
        if frame[: _CORRELATION.start] != self._head or frame[_CORRELATION.stop : self._key_end] != self._rest:
            return None
        return frame[self._body_at :]
