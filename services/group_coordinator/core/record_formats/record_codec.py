"""The codec of records in `__consumer_offsets`: it writes the bytes that Kafka 4.2 writes, and reads all that it reads.

A key is the number of its kind, then its fields, never in compact encodings. A value begins with its version. Transactional
batches have committed offsets alone, and control batches have markers.
"""

import struct
from typing import Final

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.record_writer import RecordWriter
from libs.wire.primitives import ProtocolError, Reader
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from libs.wire.record_batches.markers import Marker, marker_in, marker_record
from services.group_coordinator.core.model.records import Logged, OffsetCommitted, OffsetPending, Record, TransactionEnded
from services.group_coordinator.core.record_formats.classic_groups import CLASSIC_GROUP
from services.group_coordinator.core.record_formats.consumer_groups import (
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    CURRENT_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT,
    TARGET_EPOCH,
    TOPICS_SEEN,
)
from services.group_coordinator.core.record_formats.offsets import OFFSET, encode_committed
from services.group_coordinator.core.record_formats.record_kind import Kind

# Kafka's share groups have 10 to 15, its streams groups 17 and 19 to 23. They are unknown here.
_BY_NUMBER: Final[dict[int, Kind]] = {
    0: OFFSET,  # Kafka before 0.9
    1: OFFSET,
    2: CLASSIC_GROUP,
    3: CONSUMER_GROUP,
    4: TOPICS_SEEN,
    5: CONSUMER_MEMBER,
    6: TARGET_EPOCH,
    7: TARGET_ASSIGNMENT,
    8: CURRENT_ASSIGNMENT,
    16: REGULAR_EXPRESSION,
}
_WRITTEN: Final = {cls: (number, kind) for number, kind in _BY_NUMBER.items() for cls in (kind.changed, kind.removed)}


def encode(record: object) -> KeyValue | None:
    """The record as key and value; None for a record that the log does not keep. Raises ValueError for values that do not fit."""
    try:
        if type(record) is OffsetPending:
            record = record.committed
        elif type(record) is TransactionEnded:
            return KeyValue(*marker_record(Marker(not record.commits, record.coordinator_epoch)))
        plain = encode_committed(record) if type(record) is OffsetCommitted else None
        return plain if plain is not None else encode_by_kind(record)
    except struct.error as error:
        raise ValueError(f"{type(record).__name__} does not fit its format: {error}") from None


def encode_by_kind(record: object) -> KeyValue | None:
    """The same for any kind of record. Commits have a faster way."""
    numbered = _WRITTEN.get(type(record))
    if numbered is None:
        return None
    number, kind = numbered
    key = RecordWriter()
    value: bytes | None = None
    key.int16(number)
    for name in kind.key:
        field = getattr(record, name)
        if isinstance(field, int):
            key.int32(field)
        else:
            key.string(field, False)
    if type(record) is kind.changed:
        writer = RecordWriter()
        kind.write(writer, record)
        value = bytes(writer.buffer)
    return KeyValue(bytes(key.buffer), value)


def decode(key: bytes, value: bytes | None, transaction: TransactionalBatch | None = None) -> Logged | None:
    """The record of a key and value; None for an unknown kind. Raises ValueError for bytes that cannot be read."""
    if transaction is None:
        return _decode_plain(key, value)
    if transaction.is_marker:
        marker = marker_in(key, value)
        if marker is None:
            return None
        return TransactionEnded(transaction.producer_id, transaction.producer_epoch, not marker.aborts, marker.coordinator_epoch)
    committed = _decode_plain(key, value)
    if committed is not None and not isinstance(committed, OffsetCommitted):
        raise ValueError(f"{type(committed).__name__} in a transaction")
    return OffsetPending(transaction.producer_id, transaction.producer_epoch, committed) if committed is not None else None


def _decode_plain(key: bytes, value: bytes | None) -> Record | None:
    try:
        reader = Reader(memoryview(key))
        kind = _BY_NUMBER.get(reader.int16())
        if kind is None:
            return None
        fields = [reader.int32() if name == "partition" else reader.string(False) for name in kind.key]
        reader.expect_end()
        if value is None:
            return kind.removed(*fields)
        reader = Reader(memoryview(value))
        version = reader.int16()
        if not 0 <= version <= kind.last_version:
            raise ValueError(f"{kind.changed.__name__}: version {version}, not 0 to {kind.last_version}")
        record = kind.read(reader, version, *fields)
        reader.expect_end()
        return record
    except ProtocolError as error:
        raise ValueError(f"not a record of __consumer_offsets: {error}") from error
