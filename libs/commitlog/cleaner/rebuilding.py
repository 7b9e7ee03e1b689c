"""Batches of which only some records stay. They keep offsets, sequences, producer and leader epoch of the original."""

from crc32c import crc32c

from libs.commitlog.cleaner.record_bytes import RetainedRecords, greatest_timestamp, shift_timestamps
from libs.wire.record_batches.batches import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    NO_TIMESTAMP,
    BatchHeader,
)
from libs.wire.record_batches.compression import compress


def empty_batch(header: BatchHeader) -> bytes:
    """A header without records. It keeps a place in the log, and a producer's last sequence."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def rebuilt_batch(header: BatchHeader, data: bytes, retained: RetainedRecords, horizon_ms: int | None) -> tuple[bytes, int]:
    """A batch of the records in `data` that stay, byte for byte, and the greatest timestamp among them.

    `horizon_ms` is set where the batch begins to wait for the end of its tombstones (KIP-534). It replaces the base timestamp,
    and the records' deltas count from it.
    """
    if header.is_log_append_time:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = greatest_timestamp(data, retained.runs, header.base_timestamp)
    if horizon_ms is not None:
        body = shift_timestamps(data, retained.runs, header.base_timestamp - horizon_ms)
        header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
    else:
        body = b"".join([data[start:stop] for start, stop in retained.runs])
    codec = header.attributes & CODEC_MASK
    blob = compress(codec, body) if codec else body
    return _batch(header._replace(max_timestamp=max_timestamp, record_count=retained.record_count), blob), max_timestamp


def _batch(header: BatchHeader, blob: bytes) -> bytes:
    batch = bytearray(HEADER_SIZE + len(blob))
    batch[HEADER_SIZE:] = blob
    fields = [*header]
    fields[1] = len(batch) - LENGTH_END
    HEADER.pack_into(batch, 0, *fields)
    fields[4] = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *fields)
    return bytes(batch)
