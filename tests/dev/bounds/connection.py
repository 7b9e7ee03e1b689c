"""A connection that sends any request, and knows how to read each answer."""

import socket
import struct
from functools import cache
from typing import Any

from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.primitives import Reader, Writer
from libs.wire.schema import Message, read_message
from tests.dev.bounds.schema_codec import Value, read, write

ANSWER_S_MAX = 30.0


@cache
def message_of(api_key: ApiKey, side: str, version: int) -> Message:
    return read_message(api_key.name.lower(), side, version, version)


class Connection:
    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._sent = 0

    @property
    def socket(self) -> socket.socket:
        """For bytes that are no request. The caller closes it."""
        return self._socket

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, api_key: ApiKey, version: int, request: Value) -> Value:
        """The answer. Raises OSError if the connection ends, or nothing comes."""
        self.send(api_key, version, request)
        return self.receive(api_key, version)

    def send(self, api_key: ApiKey, version: int, request: Value) -> None:
        self._sent += 1
        writer = Writer()
        write_request_header(writer, RequestHeader(api_key, version, self._sent, "bounds"))
        body = write(message_of(api_key, "request", version), request, flexible=is_flexible(api_key, version))
        self._socket.sendall(struct.pack(">i", len(writer.buffer) + len(body)) + writer.buffer + body)

    def send_frame(self, frame: bytes) -> None:
        """A frame that was made elsewhere. Its correlation id is that of the connection's next request, from 1 on."""
        self._sent += 1
        self._socket.sendall(frame)

    def receive(self, api_key: ApiKey, version: int) -> Value:
        """The answer to the request that was sent last."""
        size = self._file.read(4)
        if len(size) < 4:
            raise ConnectionResetError(f"the connection ended at {api_key.name} {version}")
        reader = Reader(memoryview(self._file.read(struct.unpack(">i", size)[0])))
        assert read_response_header(reader, api_key, version) == self._sent
        return read(message_of(api_key, "response", version), reader, flexible=is_flexible(api_key, version))


def errors_in(answer: Any, path: str = "") -> list[tuple[str, int]]:
    """Each error code in an answer, with its place."""
    if isinstance(answer, list):
        return [error for each in answer for error in errors_in(each, path)]
    if not isinstance(answer, dict):
        return []
    found = []
    for name, value in answer.items():
        if name.endswith("error_code"):
            found.append((f"{path}.{name}", value))
        else:
            found += errors_in(value, f"{path}.{name}")
    return found
