"""Request and response headers."""

import struct

from libs.lean_dataclass import dataclass
from libs.wire.api_keys import ApiKey, is_flexible, request_header_version, response_header_version
from libs.wire.primitives import ProtocolError, Reader, Writer

_FIXED = struct.Struct(">hhi")
_INT32 = struct.Struct(">i")
_KEYS = {int(key): key for key in ApiKey}


@dataclass(slots=True)
class RequestHeader:
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str  # null is read as ""


def read_request_header(reader: Reader) -> RequestHeader:
    """Reads a request header. Raises ProtocolError for an API key that Kafka does not have. Whether the API is served is for the
    caller to decide."""
    if reader.remaining < 8:
        raise ProtocolError("frame too short for a request header")
    api_key_number, api_version, correlation_id = _FIXED.unpack_from(reader.view, reader.position)
    reader.position += 8
    api_key = _KEYS.get(api_key_number)
    if api_key is None:
        raise ProtocolError(f"unknown api key {api_key_number}")
    # The client id kept its two-byte length in header v2, so that a broker can read it before it knows the API.
    client_id = reader.nullable_string(flexible=False) or ""
    if is_flexible(api_key, api_version):
        reader.skip_tagged_fields()
    return RequestHeader(api_key, api_version, correlation_id, client_id)


def write_request_header(writer: Writer, header: RequestHeader) -> None:
    writer.buffer += _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    writer.string(header.client_id, flexible=False)
    if request_header_version(header.api_key, header.api_version) == 2:
        writer.no_tagged_fields()


def read_response_header(reader: Reader, api_key: ApiKey, version: int) -> int:
    """The correlation id."""
    correlation_id = reader.int32()
    if response_header_version(api_key, version) == 1:
        reader.skip_tagged_fields()
    return correlation_id


def write_response_header(writer: Writer, api_key: ApiKey, version: int, correlation_id: int) -> None:
    writer.buffer += _INT32.pack(correlation_id)
    if response_header_version(api_key, version) == 1:
        writer.no_tagged_fields()
