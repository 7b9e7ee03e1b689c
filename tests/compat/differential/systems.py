"""One side of the comparison: sends bytes over a socket of its own, and says what came back."""

import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from tests.compat.differential.messages import CLIENT_ID, decode_response, encode_request

KAFKA = "Apache Kafka"
CLOSED = "the connection closed"
SILENT = "no answer"
"""Nothing came back, and the connection goes on."""

STUCK = "no answer, and none to what comes after it"

ASKED, PROBED = 7, 0x7F000001
TIMEOUT_S = 60.0


@dataclass
class System:
    """`port` is broker 1's. `topic_ids` and `cluster_id` are learnt, to be recognised in answers."""

    name: str
    port: int
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    cluster_id: str = ""
    member_ids: dict[str, int] = field(default_factory=dict)
    """Of members of the scenario's groups, in the order in which they were told."""

    def ask(
        self, api: str, version: int, fields: dict[str, Any], *, timeout_s: float = TIMEOUT_S, client_id: str = CLIENT_ID
    ) -> dict[str, Any] | str:
        """The decoded answer, CLOSED or SILENT."""
        frame = encode_request(api, version, fields, correlation_id=ASKED, client_id=client_id)
        return self.ask_raw(api, version, frame, timeout_s=timeout_s)

    def ask_raw(self, api: str, version: int, frame: bytes, *, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | str:
        """The same, of a frame that says it is that API and version."""
        data = self.exchange(frame, timeout_s=timeout_s)
        return data if isinstance(data, str) else decode_response(api, version, data)

    def exchange(self, frame: bytes, *, timeout_s: float = TIMEOUT_S) -> bytes | str:
        """The answer to one frame. A probe follows it on the same connection, and tells silence from a closed connection."""
        probe = encode_request("api_versions", 0, {}, correlation_id=PROBED)
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as connection:
            try:
                self.begin(connection)
                connection.sendall(frame + probe)
                first = read_frame(connection)
                if first is None:
                    return CLOSED
                if _correlation_id(first) == PROBED:
                    return SILENT
                assert _correlation_id(first) == ASKED, f"{self.name} answers another request: {first[:4].hex()}"
                second = read_frame(connection)
                assert second is not None, f"{self.name} answered, then closed the connection: {first[:60]!r}"
                assert _correlation_id(second) == PROBED
                return first
            except (ConnectionResetError, BrokenPipeError):
                return CLOSED
            except TimeoutError:
                return STUCK

    def begin(self, connection: socket.socket) -> None:
        """What a client does first on a connection: nothing."""

    def park(self, api: str, version: int, fields: dict[str, Any]) -> "PendingResponse":
        """Sends, on a connection of its own, what is not answered at once."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        connection.sendall(encode_request(api, version, fields, correlation_id=ASKED))
        return PendingResponse(api, version, connection)


@dataclass
class PendingResponse:
    """A request, and its answer when somebody asks for it."""

    api: str
    version: int
    connection: socket.socket | None = None
    response: dict[str, Any] | str | None = None

    def answer(self) -> dict[str, Any] | str:
        if self.response is None:
            assert self.connection is not None, "nobody was asked"
            try:
                frame = read_frame(self.connection)
                self.response = CLOSED if frame is None else decode_response(self.api, self.version, frame)
            except ConnectionResetError:
                self.response = CLOSED
            except TimeoutError:
                self.response = STUCK
        return self.response

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def read_frame(connection: socket.socket) -> bytes | None:
    """None: the other side closed the connection."""
    head = _read(connection, 4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack(">i", head)
    body = _read(connection, length)
    return body if len(body) == length else None


def _correlation_id(data: bytes) -> int:
    return int.from_bytes(data[:4], "big", signed=True)


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length and (piece := connection.recv(min(1 << 20, length - len(data)))):
        data += piece
    return bytes(data)
