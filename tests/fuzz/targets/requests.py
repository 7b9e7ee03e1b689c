"""Request frames: the header, then the decoder of each API and version that is served.

An input is a frame without its length. What decodes is written and read again, and comes out equal. Where coordinators decide,
the gateway's refusal of that request can be made and written.
"""

import importlib
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.apis import APIS, Api
from libs.wire.headers import RequestHeader, read_request_header, write_request_header
from libs.wire.messages import fetch, produce
from libs.wire.primitives import ProtocolError, Reader, Writer
from tests.dev.bounds import schema_codec
from tests.dev.bounds.connection import message_of
from tests.dev.bounds.requests import Known, plausible
from tests.wire.recorded_requests import CLIENTS, frames_of

_READ_BY_HAND = {ApiKey.PRODUCE: produce.read_produce, ApiKey.FETCH: fetch.read_fetch}
_COORDINATOR_NOT_AVAILABLE = 15


def check(data: bytes) -> None:
    reader = Reader(memoryview(data))
    try:
        header = read_request_header(reader)
    except ProtocolError:
        return
    _check_header(header)
    api = APIS.get(header.api_key)
    if api is None or not api.serves(header.api_version):
        return
    body = reader.view[reader.position :]
    try:
        request = _read(api, header.api_version, body)
    except ProtocolError:
        return
    _check_round_trip(api, header.api_version, request, body)
    if api.refused is not None:
        _check_refusal(api, header.api_version, request, body)


def _check_header(header: RequestHeader) -> None:
    writer = Writer()
    write_request_header(writer, header)
    assert read_request_header(Reader(memoryview(writer.buffer))) == header, header


def _read(api: Api, version: int, body: memoryview) -> Any:
    read = _READ_BY_HAND.get(api.key)
    if read is None:
        return api.read(body, version)
    reader = Reader(body)
    request = read(reader, version)
    reader.expect_end()
    return request


def _check_round_trip(api: Api, version: int, request: Any, body: memoryview) -> None:
    codec = _codec_of(api.key)
    if not hasattr(codec, "write_request"):
        again = _rewritten(api, version, request, body)
        assert again is None or _read(api, version, memoryview(again)) == request, request
    elif api.serves(version):
        first, second = Writer(), Writer()
        codec.write_request(first, request, version)
        # Bytes, since a quota may be NaN, which equals nothing.
        codec.write_request(second, _read(api, version, memoryview(first.buffer)), version)
        assert first.buffer == second.buffer, request


def _rewritten(api: Api, version: int, request: Any, body: memoryview) -> bytes | None:
    """The bytes of a request that is read by hand, written by the generator's description. None: it has no form for null, or a
    tagged field is malformed that only the description looks into."""
    if api.key is ApiKey.METADATA and request.topics is None:
        return None
    message, flexible = message_of(api.key, "request", version), is_flexible(api.key, version)
    try:
        value = schema_codec.read(message, Reader(body), flexible=flexible)
    except ProtocolError:
        return None
    return schema_codec.write(message, value, flexible=flexible)


@cache
def _codec_of(key: ApiKey) -> Any:
    return importlib.import_module(f"libs.wire.messages.{key.name.lower()}")


def _check_refusal(api: Api, version: int, request: Any, body: memoryview) -> None:
    keys = api.shard_keys(request, version)
    assert len(keys) <= len(body) + 1
    written = api.written(api.refusal(version, bytes(body), _COORDINATOR_NOT_AVAILABLE, keys[0] if keys else ""), version)
    assert len(written) <= 64 * len(body) + 256, (len(written), len(body))


@cache
def _known() -> Known:
    return Known(bytes(range(16)), "t", 7, 0, "g", "m", "c", "n", 1)


def seeds() -> Iterator[bytes]:
    for client in CLIENTS:
        yield from frames_of(client)
    for key, api in APIS.items():
        for version in range(api.min_version, api.max_version + 1):
            writer = Writer()
            write_request_header(writer, RequestHeader(key, version, 1, "fuzz"))
            body = schema_codec.write(
                message_of(key, "request", version), plausible(key, version, _known()), flexible=is_flexible(key, version)
            )
            yield bytes(writer.buffer) + body
    yield struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 1, -1)
