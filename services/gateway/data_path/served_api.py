"""One row of the table of APIs: what connection, ApiVersions and docs/protocol.md need to know of an API."""

import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from libs.wire.api import ApiKey, response_header_version
from libs.wire.headers import write_response_header
from libs.wire.primitives import MAX_ELEMENTS, Reader, Writer
from services.gateway.state import GatewayState, RequestContext

if TYPE_CHECKING:
    from services.gateway.data_path import DataPath
    from services.gateway.exchange import Exchange

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # length, correlation id
_FLEXIBLE_HEAD = struct.Struct(">iib")  # and no tagged fields


def data_plane(*_: object) -> Any:
    """Stands where an API has no handler: the connection begins Produce and Fetch itself, and `begin` what is relayed, without a
    task per request."""
    raise AssertionError("what has no handler never comes this way")


def _not_at_once(*_: object) -> Any:
    return None


def _by_handler(*_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Api:
    """Versions are inclusive. `handle` gets what `read_request` made, and `write_response` what `handle` returned.

    `at_once` is asked first, and answers what needs no waiting, without a task; None: it needs some. `begin` is asked before
    anything of the request is read, and says whether it has begun it: then it is answered without any of the others.
    `elements_max`: a request whose arrays have more elements together closes the connection.
    """

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    read_request: Callable[[Reader, int], Any] = data_plane
    write_response: Callable[[Writer, Any, int], None] = data_plane
    handle: Callable[[GatewayState, RequestContext, Any], Coroutine[Any, Any, Any]] = data_plane
    advertised_min_version: int = -1  # -1: min_version
    at_once: Callable[["DataPath", "Exchange", Any], Any] = _not_at_once
    begin: Callable[["DataPath", "Exchange", Reader], bool] = _by_handler
    elements_max: int = MAX_ELEMENTS

    def __post_init__(self) -> None:
        if self.advertised_min_version < 0:
            object.__setattr__(self, "advertised_min_version", self.min_version)

    def written(self, version: int, correlation_id: int, response: object) -> bytearray:
        """The response's whole frame."""
        writer = _begun(self.key, version, correlation_id)
        self.write_response(writer, response, version)
        return _ended(writer)


def framed(key: ApiKey, version: int, correlation_id: int, body: bytes | bytearray | memoryview) -> bytes:
    """The whole frame of a response that is written already."""
    if response_header_version(key, version) == 1:
        return b"".join((_FLEXIBLE_HEAD.pack(len(body) + 5, correlation_id, 0), body))
    return b"".join((_HEAD.pack(len(body) + 4, correlation_id), body))


def _begun(key: ApiKey, version: int, correlation_id: int) -> Writer:
    writer = Writer()
    writer.buffer += b"\0\0\0\0"
    write_response_header(writer, key, version, correlation_id)
    return writer


def _ended(writer: Writer) -> bytearray:
    _LENGTH.pack_into(writer.buffer, 0, len(writer.buffer) - 4)
    return writer.buffer
