"""Transaction markers: control batches of one record, which say how a producer's transaction ended."""

import struct
from typing import NamedTuple

from libs.wire.record_batches.batches import BatchError
from libs.wire.record_batches.records import Record, build_batch, iter_records

ABORT, COMMIT = 0, 1
_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch


class Marker(NamedTuple):
    """The content of a marker's record. The batch's header names the producer whose transaction it ends."""

    aborts: bool
    coordinator_epoch: int


def read_marker(batch: bytes | bytearray | memoryview) -> Marker | None:
    """The marker in a control batch. None: it is another kind of control batch, or the cleaner removed its record (it then ends
    nothing)."""
    try:
        record = next(iter_records(batch))
    except (BatchError, StopIteration):
        return None
    return marker_in(record.key, record.value)


def marker_in(key: bytes | memoryview | None, value: bytes | memoryview | None) -> Marker | None:
    """The marker in a record of a control batch; None for another kind of record."""
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(key)
    return Marker(kind == ABORT, _VALUE.unpack_from(value)[1]) if kind in (ABORT, COMMIT) else None


def marker_record(marker: Marker) -> tuple[bytes, bytes]:
    """Key and value of a marker's record."""
    return _KEY.pack(0, ABORT if marker.aborts else COMMIT), _VALUE.pack(0, marker.coordinator_epoch)


def build_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """The control batch that ends the producer's transaction, byte for byte as Kafka writes it."""
    return build_batch(
        [Record(*marker_record(marker), timestamp_ms)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
