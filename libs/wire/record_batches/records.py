"""The records inside a batch: read where they are needed, and built for tests and for our own batches.

Nothing on the produce or fetch path comes here; what that path needs (`libs.wire.record_batches.batches`) is offered under this
name too.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import wrapped_timestamp
from libs.wire.record_batches.batches import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchError,
    BatchHeader,
    BatchView,
    ProduceLimits,
    iter_batches,
    patch,
    set_log_append_time,
    validate_produce,
)
from libs.wire.record_batches.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    DecompressionFailed,
    DecompressionTooLarge,
    compress,
    decompress,
)
from libs.wire.record_batches.varints import put_varint, varint

__all__ = [
    "HEADER",
    "HEADER_SIZE",
    "LENGTH_END",
    "NO_TIMESTAMP",
    "BatchError",
    "BatchHeader",
    "BatchView",
    "ProduceLimits",
    "Record",
    "build_batch",
    "iter_batches",
    "iter_records",
    "patch",
    "set_log_append_time",
    "validate_produce",
]


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def iter_records(view: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at the start of `view`. Raises BatchError: MESSAGE_TOO_LARGE (10) beyond the bound,
    CORRUPT_MESSAGE (2) or INVALID_RECORD (87) for broken records."""
    batch = memoryview(view)
    header = BatchHeader.at(batch)
    try:
        body = memoryview(decompress(header.codec, batch[HEADER_SIZE : header.size], max_bytes))
    except DecompressionTooLarge as error:
        raise BatchError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except DecompressionFailed as error:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    position = 0
    for _ in range(header.record_count):
        try:
            length, start = varint(body, position)
            position = start + length
            if length < 0 or position > len(body):
                raise BatchError(ErrorCode.INVALID_RECORD, f"a record of {length} bytes, {len(body) - start} remain")
            record = _read_record(body[start:position], header)
        except IndexError:
            raise BatchError(ErrorCode.INVALID_RECORD, "a record ends within a number") from None
        yield record
    if position != len(body):
        raise BatchError(ErrorCode.INVALID_RECORD, f"{len(body) - position} bytes follow the last record")


def _read_record(body: memoryview, header: BatchHeader) -> Record:
    """Raises IndexError where a number does not end."""
    timestamp_delta, position = varint(body, 1)  # byte 0: attributes, unused
    offset_delta, position = varint(body, position)
    key, position = _nullable(body, position)
    value, position = _nullable(body, position)
    header_count, position = varint(body, position)
    if not 0 <= header_count <= (len(body) - position) // 2:
        raise BatchError(ErrorCode.INVALID_RECORD, f"{header_count} record headers in {len(body) - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name, position = _nullable(body, position)
        content, position = _nullable(body, position)
        if name is None:
            raise BatchError(ErrorCode.INVALID_RECORD, "a record header has no name")
        headers.append((name.decode(errors="replace"), content))
    if position != len(body):
        raise BatchError(ErrorCode.INVALID_RECORD, "a record is longer than its fields")
    timestamp = header.max_timestamp if header.is_log_append_time else wrapped_timestamp(header.base_timestamp + timestamp_delta)
    return Record(key, value, timestamp, tuple(headers), header.base_offset + offset_delta)


def _nullable(body: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = varint(body, position)
    if length == -1:
        return None, position
    if length < 0 or length > len(body) - position:
        raise BatchError(ErrorCode.INVALID_RECORD, f"a field of {length} bytes, {len(body) - position} remain")
    return bytes(body[position : position + length]), position + length


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """A batch with the records at consecutive offsets from `base_offset` (their own `offset` is not looked at)."""
    base_timestamp = records[0].timestamp if records else -1
    body = bytearray()
    for index, record in enumerate(records):
        _write_record(body, record, record.timestamp - base_timestamp, index)
    blob = compress(codec, body)
    attributes = codec | transactional * TRANSACTIONAL | control * CONTROL
    max_timestamp = max((record.timestamp for record in records), default=-1)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    batch = bytearray(HEADER_SIZE + len(blob))
    batch[HEADER_SIZE:] = blob
    fields = [
        base_offset,
        len(batch) - LENGTH_END,
        leader_epoch,
        2,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ]
    HEADER.pack_into(batch, 0, *fields)
    fields[4] = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *fields)
    return batch


def _write_record(body: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    content = bytearray(b"\x00")
    put_varint(content, timestamp_delta)
    put_varint(content, offset_delta)
    _put_nullable(content, record.key)
    _put_nullable(content, record.value)
    put_varint(content, len(record.headers))
    for name, value in record.headers:
        _put_nullable(content, name.encode())
        _put_nullable(content, value)
    put_varint(body, len(content))
    body += content


def _put_nullable(body: bytearray, value: bytes | None) -> None:
    if value is None:
        body.append(1)  # zig-zag of -1
    else:
        put_varint(body, len(value))
        body += value
