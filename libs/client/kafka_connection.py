"""A blocking connection to one broker. A caller may work between a request and its response."""

import select
import socket
import ssl
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from libs.client.security import NO_SECURITY, Security, SecurityProblem
from libs.host_port import with_port
from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.primitives import ProtocolError, Reader, Writer

ANSWER_BYTES_MAX = 64 << 20
READ_BYTES = 65_536
_LENGTH = struct.Struct(">i")
WITHOUT_SECURITY = ", as at a listener with TLS or SASL, whose settings this client was not given"


class BrokerUnreachable(Exception):
    """No broker answers: nobody listens at the address, or the connection failed. The request may have had its effect."""


class KafkaConnection:
    """May be used as a context manager. Raises BrokerUnreachable, and is then of no more use.

    It authenticates at once, and raises SecurityProblem if that cannot be.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "penstock",
        timeout_s: float = 10.0,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        security: Security = NO_SECURITY,
    ) -> None:
        self.address = with_port(host, port)
        self._client_id = client_id
        self._answer_bytes_max = answer_bytes_max
        self._correlation_id = 0
        self._received = bytearray()
        self._has_security = security.has_tls or security.has_sasl
        try:
            self._socket: socket.socket = socket.create_connection((host, port), timeout=timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} cannot be reached: {error}") from error
        try:
            self._secure(security, host)
        except BaseException:
            self.close()
            raise

    def _secure(self, security: Security, host: str) -> None:
        try:
            if security.has_tls:
                self._socket = security.context().wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise SecurityProblem(f"the certificate of {self.address} is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} does not speak TLS: {error}") from error
        if security.has_sasl:
            from libs.client.authentication import authenticate  # its package takes memory

            authenticate(self, security)

    def __enter__(self) -> "KafkaConnection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def set_timeout(self, timeout_s: float) -> None:
        """How long a response may take."""
        self._socket.settimeout(timeout_s)

    def send(self, key: ApiKey, version: int, body: Writer, payload: Sequence[Any] = ()) -> None:
        """`payload`: buffers that follow the body."""
        self._correlation_id += 1
        frame = Writer()
        write_request_header(frame, RequestHeader(key, version, self._correlation_id, self._client_id))
        frame.buffer += body.buffer
        size = len(frame.buffer) + sum(len(part) for part in payload)
        try:
            self._socket.sendall(b"".join([_LENGTH.pack(size), frame.buffer, *payload]))
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} does not take {key.name}: {error}") from error

    def has_answer(self, wait_s: float) -> bool:
        """Whether bytes of a response, or an end of the connection, are there within that time."""
        if self._received or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            return True
        poll = select.poll()  # `select` refuses descriptors from 1,024 on
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(wait_s * 1000):
            return False
        return not isinstance(self._socket, ssl.SSLSocket) or self._has_decrypted(self._socket)

    def _has_decrypted(self, tls: ssl.SSLSocket) -> bool:
        """Takes what has arrived: it may be TLS's own, such as tickets of sessions."""
        timeout_s = tls.gettimeout()
        tls.settimeout(0)
        try:
            self._received += tls.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            pass  # `receive` says so
        finally:
            tls.settimeout(timeout_s)
        return True

    def receive(self, key: ApiKey, version: int) -> Reader:
        """The body of the response to the last request."""
        try:
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
            if not 0 <= length <= self._answer_bytes_max:
                raise ProtocolError(f"a response of {length} bytes")
            reader = Reader(memoryview(self._read(length)))
            answered = read_response_header(reader, key, version)
        except (OSError, ProtocolError) as error:
            hint = WITHOUT_SECURITY if isinstance(error, ConnectionResetError) and not self._has_security else ""
            reason = f"{error or type(error).__name__}{hint}"
            raise BrokerUnreachable(f"{self.address} does not answer {key.name}: {reason}") from error
        if answered != self._correlation_id:
            raise BrokerUnreachable(f"{self.address} answers request {answered}, not {self._correlation_id}")
        return reader

    def ask(self, key: ApiKey, version: int, body: Writer) -> Reader:
        self.send(key, version, body)
        return self.receive(key, version)

    def ask_message(self, module: Any, key: ApiKey, version: int, message: object) -> Any:
        """The response to a message of a generated module of `libs/wire/messages/`."""
        writer = Writer()
        module.write_request(writer, message, version)
        return module.read_response(self.ask(key, version, writer), version)

    def _read(self, length: int) -> bytes:
        while len(self._received) < length:
            part = self._socket.recv(max(READ_BYTES, length - len(self._received)))
            if not part:
                raise ConnectionResetError("the connection ended")
            self._received += part
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken
