"""Kafka's `<offset>.snapshot`: producer state as of an offset (exclusive), with the last batch of each producer only.

Our own resume points (`resume_points.py`) keep all five batches. This file is for Kafka's tools, for a Kafka broker that is given
the directory, and for directories that Kafka wrote.
"""

import struct

from crc32c import crc32c

from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.producers.producer_state import CachedBatch, ProducerEntry

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def format_snapshot(entries: dict[int, ProducerEntry]) -> bytes:
    parts = [_COUNT.pack(len(entries))]
    for producer_id, entry in entries.items():
        last = entry.batches[-1] if entry.batches else CachedBatch(-1, -1, 0, -1)
        parts.append(
            _ENTRY.pack(
                producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    body = b"".join(parts)
    return _HEAD.pack(1, crc32c(body)) + body


def parse_snapshot(content: bytes, path: str) -> dict[int, ProducerEntry]:
    """Raises DirectoryDamaged."""
    try:
        version, crc = _HEAD.unpack_from(content)
        body = memoryview(content)[_HEAD.size :]
        (count,) = _COUNT.unpack_from(body)
        if version != 1 or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
            raise DirectoryDamaged(f"{path}: not a sound producer snapshot")
        entries: dict[int, ProducerEntry] = {}
        for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = fields
            batches = (CachedBatch(sequence, offset, delta, timestamp),) if offset >= 0 else ()
            entries[producer_id] = ProducerEntry(epoch, batches, coordinator_epoch, timestamp, first_offset)
    except struct.error as error:
        raise DirectoryDamaged(f"{path}: {error}") from error
    return entries
