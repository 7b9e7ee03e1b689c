"""Keys and values of whole batches, for coordinators that load a shard and keep the latest value of each key.

Other parts of a record are not looked at, and no object is made for it. Of records with one key only the last is given, in its
place: the result of a compaction of just these batches. Batches of transactions are given one by one, since only their markers
say what they come to.
"""

from typing import NamedTuple

from crc32c import crc32c

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import SMALLEST_LENGTH
from libs.wire.record_batches.batches import CRC_START, HEADER_SIZE, BatchError, BatchHeader
from libs.wire.record_batches.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    DecompressionFailed,
    DecompressionTooLarge,
    decompress,
)
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from libs.wire.record_batches.varints import longer


class KeyValues(NamedTuple):
    """The latest value of each key in neighbouring batches, in the order of the last record of each key."""

    values: dict[bytes, bytes | None]
    transaction: TransactionalBatch | None
    """The transaction of a single batch. None: of any number of batches that belong to none."""


def latest_values(batches: Buffer, position: int, end: int) -> tuple[list[KeyValues], int]:
    """The records in [`position`, `end`), in the order of the log. With them, the offset after the last whole batch, `position`
    if there is none. A record without a key is passed over.

    Raises BatchError where a batch is damaged.
    """
    view = memoryview(batches)
    found: list[KeyValues] = []
    at, size = 0, len(view)
    while size - at >= HEADER_SIZE:
        header = BatchHeader.at(view, at)
        if header.batch_length < SMALLEST_LENGTH or header.size > size - at:
            break
        if header.base_offset >= end:
            break
        batch = view[at : at + header.size]
        at += header.size
        if header.last_offset < position:
            continue
        transaction = None
        if header.is_transactional:
            transaction = TransactionalBatch(header.producer_id, header.producer_epoch, header.is_control)
        if transaction is not None or not found or found[-1].transaction is not None:
            found.append(KeyValues({}, transaction))
        _read(batch, header, position - header.base_offset, end - header.base_offset, found[-1].values)
        position = header.last_offset + 1
    return found, position


def _read(batch: memoryview, header: BatchHeader, first: int, stop: int, values: dict[bytes, bytes | None]) -> None:
    if crc32c(batch[CRC_START:]) != header.crc:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, f"the batch at {header.base_offset} does not match its CRC")
    try:
        body = bytes(decompress(header.codec, batch[HEADER_SIZE:], DECOMPRESSED_BYTES_MAX))
    except (DecompressionFailed, DecompressionTooLarge) as error:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    try:
        _read_records(body, header.record_count, first, stop, values)
    except IndexError:
        raise BatchError(ErrorCode.INVALID_RECORD, f"the records of the batch at {header.base_offset} end early") from None


def _read_records(body: bytes, count: int, first: int, stop: int, values: dict[bytes, bytes | None]) -> None:
    """Reads the records of one batch. Numbers of one and two bytes are read in place: see `varints`."""
    position = 0
    for _ in range(count):
        raw = body[position]
        position += 1
        if raw > 0x7F:
            if (byte := body[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = longer(body, position, raw)
        ends = position + (raw >> 1)
        position += 1  # the attributes, unused
        while body[position] > 0x7F:  # the timestamp
            position += 1
        position += 1
        raw = body[position]
        position += 1
        if raw > 0x7F:
            if (byte := body[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = longer(body, position, raw)
        delta = raw >> 1
        raw = body[position]
        position += 1
        if raw > 0x7F:
            if (byte := body[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = longer(body, position, raw)
        if raw & 1 or not first <= delta < stop:  # no key, or outside of the wanted offsets
            position = ends
            continue
        key = body[position : position + (raw >> 1)]
        position += raw >> 1
        raw = body[position]
        position += 1
        if raw > 0x7F:
            if (byte := body[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = longer(body, position, raw)
        if raw & 1:
            value = None
        else:
            value = body[position : position + (raw >> 1)]
            position += raw >> 1
        if position >= ends:  # at least a count of headers follows
            raise IndexError
        values.pop(key, None)
        values[key] = value
        position = ends
    if position != len(body):
        raise IndexError
