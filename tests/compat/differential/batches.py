"""Record batches, right and wrong, without libs/wire: each field can be given a value that it should not have."""

import struct
import time

import crc32c

NOW_MS = int(time.time() * 1000)
"""One moment for a whole run: both systems get the same bytes."""

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

_AFTER_CRC = struct.Struct(">hiqqqhii")


def batch(
    values: tuple[bytes, ...] = (b"value",),
    *,
    keys: tuple[bytes | None, ...] | None = None,
    timestamp: int | None = None,
    max_timestamp: int | None = None,
    attributes: int = 0,
    base_offset: int = 0,
    magic: int = 2,
    producer: tuple[int, int, int] = (-1, -1, -1),
    count: int | None = None,
    last_offset_delta: int | None = None,
    records: bytes | None = None,
    crc: int | None = None,
    length_off_by: int = 0,
) -> bytes:
    """`producer`: id, epoch, base sequence. `records`: what stands there instead, compressed or not."""
    timestamp = NOW_MS if timestamp is None else timestamp
    if records is None:
        all_keys = keys or (None,) * len(values)
        records = b"".join(
            record(value, key=key, offset_delta=i) for i, (key, value) in enumerate(zip(all_keys, values, strict=True))
        )
    checked = _AFTER_CRC.pack(
        attributes,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp if max_timestamp is None else max_timestamp,
        *producer,
        len(values) if count is None else count,
    )
    checked += records
    checksum = crc32c.crc32c(checked) if crc is None else crc
    length = 4 + 1 + 4 + len(checked) + length_off_by
    return struct.pack(">qiibI", base_offset, length, -1, magic, checksum) + checked


def record(
    value: bytes | None, *, key: bytes | None = None, offset_delta: int = 0, timestamp_delta: int = 0, header_count: int = 0
) -> bytes:
    """`header_count` is only the number: no headers follow it."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(header_count)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
