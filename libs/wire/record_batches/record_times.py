"""The timestamps of the records in an uncompressed batch, without their contents."""

from libs.wire.record_batches.batch_layout import HEADER_SIZE, TIMESTAMP_MAX, TIMESTAMP_MIN
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.varints import varint


def first_at(
    batch: bytes | bytearray, header: BatchHeader, timestamp: int, start_offset: int, records_max: int
) -> tuple[int, int] | None:
    """The (offset, timestamp) of the first record from `start_offset` on that is not older than `timestamp`.

    None: it is not among the first `records_max` records, a record is broken, or `batch`, which may be a part of one, ends before
    it. A record whose time or offset is out of bounds is broken.
    """
    position, end = HEADER_SIZE, min(len(batch), header.size)
    base_offset, last_offset, base_timestamp = header.base_offset, header.last_offset, header.base_timestamp
    for _ in range(min(header.record_count, records_max)):
        try:
            length, position = varint(batch, position)
            timestamp_delta, at = varint(batch, position + 1)  # a byte of attributes, unused
            offset_delta, at = varint(batch, at)
        except IndexError:
            return None
        if length < at - position:
            return None
        record_timestamp, offset = base_timestamp + timestamp_delta, base_offset + offset_delta
        if not (TIMESTAMP_MIN <= record_timestamp <= TIMESTAMP_MAX and base_offset <= offset <= last_offset):
            return None
        if record_timestamp >= timestamp and offset >= start_offset:
            return (offset, record_timestamp) if position + length <= header.size else None
        position += length
        if position >= end:
            return None
    return None
