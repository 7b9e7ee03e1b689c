"""An API as the gateway serves it: its row in the registry (`libs/wire/apis.py`), and its handler."""

import struct
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

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


Handle = Callable[[GatewayState, RequestContext, Any], Coroutine[Any, Any, Any]]
"""A handler: it turns a request into its response."""


def _by_handler(*_: object) -> bool:
    return False


class RequestShortcut(Protocol):
    """A shortcut that recognises a request once it is parsed (for those that need no parsing:
    `services/gateway/exchange/exchange.py:Shortcut`). One serves the whole process."""

    def match(self, data_path: DataPath, exchange: Exchange, request: Any) -> Any:
        """What `begin` needs to know. None: the request is another one. Nothing was begun."""

    def begin(self, data_path: DataPath, exchange: Exchange, match: Any, by_handler: Callable[[], None]) -> bool:
        """Begins the request without a task. False: it cannot, and nothing was begun. True: an answer ends it, or a call of
        `by_handler`, which begins `handle`."""


@dataclass(frozen=True, slots=True)
class ServedApi:
    """A row of the registry, with the gateway's functions for it.

    `begin` is called first, before the body is read. True: it has begun the request, and none of the others is called. `handle`
    turns the request that the codec has read into the response that the codec writes; None: `begin` begins every request.
    `shortcut` is tried before it.

    `tells_addresses`: its answer names the brokers' addresses. `in_any_version`: versions that are not served are answered, too.
    `outlives_its_client`: the request begins even if its client is gone by then, since others would wait for what it does.
    """

    api: Api
    handle: Handle | None = None
    begin: Callable[[DataPath, Exchange, Reader], bool] = _by_handler
    shortcut: RequestShortcut | None = None
    tells_addresses: bool = False
    in_any_version: bool = False
    outlives_its_client: bool = False

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
