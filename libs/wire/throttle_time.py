"""The place of `throttle_time_ms` in a response (KIP-124). A gateway writes it into answers that are written already."""

import struct
from collections.abc import Mapping
from typing import Final

from libs.wire.api_keys import ApiKey, response_header_version

_INT32: Final = struct.Struct(">i")
_HEAD: Final = 8
"""Bytes of a frame before the tagged fields of its header: length and correlation id."""

_NEVER: Final = 1 << 15
_FIRST_WITH: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 1,
    ApiKey.FETCH: 1,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DESCRIBE_GROUPS: 1,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.LIST_GROUPS: 1,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.API_VERSIONS: _NEVER,  # it stands behind the APIs, and Kafka's clients do not wait for it
    ApiKey.DESCRIBE_QUORUM: _NEVER,
    ApiKey.SASL_AUTHENTICATE: _NEVER,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.WRITE_TXN_MARKERS: _NEVER,
}
"""The first version that has it. All others have it from version 0 on."""


def throttle_time_at(key: ApiKey, version: int, frame: bytes | bytearray | memoryview) -> int:
    """The position in a whole response frame whose throttle time is 0, or in its first part. -1: the response has none, or is a
    Produce with endpoint hints (KIP-951), where nobody can tell without reading all of it."""
    if version < _FIRST_WITH.get(key, 0):
        return -1
    is_flexible = response_header_version(key, version)
    if key is not ApiKey.PRODUCE:
        return _HEAD + is_flexible + (2 if key is ApiKey.OFFSET_DELETE else 0)
    if not is_flexible:
        return len(frame) - 4
    # An endpoint ends with its port, which is not 0, its rack and one byte.
    return len(frame) - 5 if bytes(frame[-5:]) == bytes(5) else -1


def with_throttle_time(frame: bytes | bytearray | memoryview, at: int, throttle_time_ms: int) -> bytearray:
    """A copy of a response frame, or of its first part, that has this throttle time at that position."""
    copied = bytearray(frame)
    _INT32.pack_into(copied, at, throttle_time_ms)
    return copied
