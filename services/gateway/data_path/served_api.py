"""An API as the gateway serves it: its row in the registry (`libs/wire/apis.py`), and its handler."""

import struct
from collections.abc import Callable, Coroutine
from typing import Any

from libs.lean_dataclass import dataclass
from libs.wire.api_keys import ApiKey, response_header_version
from libs.wire.apis import Api
from libs.wire.headers import write_response_header
from libs.wire.primitives import Reader, Writer
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange, WrittenBody
from services.gateway.exchange.request_context import GatewayState, RequestContext

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # length, correlation id
_FLEXIBLE_HEAD = struct.Struct(">iib")  # and no tagged fields


def data_plane(*_: object) -> Any:
    """The handler of an API without one, whose `begin` begins each request."""
    raise AssertionError("an API without a handler was handled")


def _not_at_once(*_: object) -> Any:
    return None


def _by_handler(*_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ServedApi:
    """A row of the registry, with the gateway's functions for it.

    `begin` is called first, before the body is read. True: it has begun the request, and none of the others is called. `handle`
    turns the request that the codec has read into the response that the codec writes. `at_once` is called before it and returns
    the response of a request that needs no waiting; None: the request needs more. `ask_leader` is called in between, and may send
    the request to one leader without a task. True: that leader's answer ends it, or a call of the last argument, which begins
    `handle`.
    """

    api: Api
    handle: Callable[[GatewayState, RequestContext, Any], Coroutine[Any, Any, Any]] = data_plane
    at_once: Callable[[DataPath, Exchange, Any], Any] = _not_at_once
    ask_leader: Callable[[DataPath, Exchange, Any, Callable[[], None]], bool] = _by_handler
    begin: Callable[[DataPath, Exchange, Reader], bool] = _by_handler

    def written(self, version: int, correlation_id: int, response: object) -> bytes | bytearray:
        """The whole frame of the response."""
        if type(response) is WrittenBody:
            return framed(self.api.key, version, correlation_id, response.body)
        writer = _begun(self.api.key, version, correlation_id)
        self.api.write_response(writer, response, version)
        return _ended(writer)


def framed(key: ApiKey, version: int, correlation_id: int, body: bytes | bytearray | memoryview) -> bytes:
    """The whole frame of a response whose body is written already."""
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
