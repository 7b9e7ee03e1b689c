"""A blocking connection to one broker: a request, then its response."""

import socket
import struct
from types import TracebackType
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.primitives import ProtocolError, Reader, Writer

ANSWER_BYTES_MAX = 64 << 20
_LENGTH = struct.Struct(">i")


class BrokerUnreachable(Exception):
    """A broker did not answer at its address."""


class KafkaConnection:
    """Use as a context manager. Raises BrokerUnreachable."""

    def __init__(self, host: str, port: int, *, client_id: str = "penstock", timeout_s: float = 10.0) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} cannot be reached: {error}") from error

    def __enter__(self) -> "KafkaConnection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, version: int, body: Writer) -> Reader:
        """The body of the response."""
        self._correlation_id += 1
        frame = Writer()
        write_request_header(frame, RequestHeader(key, version, self._correlation_id, self._client_id))
        frame.buffer += body.buffer
        try:
            self._socket.sendall(_LENGTH.pack(len(frame.buffer)) + frame.buffer)
            reader = Reader(memoryview(self._receive_frame()))
            answered = read_response_header(reader, key, version)
        except (OSError, ProtocolError) as error:
            raise BrokerUnreachable(f"{self.address} does not answer {key.name}: {error or type(error).__name__}") from error
        if answered != self._correlation_id:
            raise BrokerUnreachable(f"{self.address} answers request {answered}, not {self._correlation_id}")
        return reader

    def ask_message(self, module: Any, key: ApiKey, version: int, message: object) -> Any:
        """The response to a message of a generated module of `libs/wire/messages/`."""
        writer = Writer()
        module.write_request(writer, message, version)
        return module.read_response(self.ask(key, version, writer), version)

    def _receive_frame(self) -> bytes:
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        if not 0 <= length <= ANSWER_BYTES_MAX:
            raise ProtocolError(f"a response of {length} bytes")
        return self._receive(length)

    def _receive(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            part = self._socket.recv(length - len(received))
            if not part:
                raise ConnectionResetError("the connection ended")
            received += part
        return bytes(received)
