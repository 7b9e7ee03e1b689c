"""OffsetCommitValue, versions 0-4. Version 1 alone has an expiry time, and is written if there is one.

Version 3 added the leader epoch, version 4 compact encodings and the topic's id.
"""

import struct
from typing import Final

from libs.coordinator.core.decisions import KeyValue
from libs.wire.primitives import NO_UUID, Reader, Writer
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetRemoved
from services.group_coordinator.core.record_formats.record_kind import Kind

_TOPIC_ID: Final = 0
_TOPIC_ID_ALONE: Final = bytes([1, _TOPIC_ID, 16])
"""The start of the only tagged field, before its 16 bytes."""
_NO_TAGS: Final = b"\0"
# Nearly all records are these, so they are written and read with few calls.
_VERSION_4: Final = struct.Struct(">hqi")
_OFFSET_AND_EPOCH: Final = struct.Struct(">qi")
_KIND_AND_LENGTH: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VERSION_4_TO_METADATA: Final = struct.Struct(">hqiB")
_COMMIT_MS: Final = struct.Struct(">q")
_NUMBER: Final = 1
_SHORT: Final = 31
"""Strings of so many characters take at most 126 bytes, so their compact length takes one byte."""


def _read(reader: Reader, version: int, group: str, topic: str, partition: int) -> OffsetCommitted:
    flexible = version >= 4
    if flexible and reader.remaining >= _OFFSET_AND_EPOCH.size:
        offset, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(reader.view, reader.position)
        reader.position += _OFFSET_AND_EPOCH.size
    else:
        offset = reader.int64()
        leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string(flexible)
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    topic_id = _read_topic_id(reader) if flexible else NO_UUID
    return OffsetCommitted(group, topic, partition, offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def _read_topic_id(reader: Reader) -> bytes:
    rest = bytes(reader.view[reader.position :])
    if len(rest) == 19 and rest.startswith(_TOPIC_ID_ALONE):
        reader.position = reader.end
        return rest[3:]
    topic_id = NO_UUID
    for tag, field in reader.tagged_fields():
        if tag == _TOPIC_ID:
            topic_id = field.uuid()
            field.expect_end()
    return topic_id


def _write(writer: Writer, record: OffsetCommitted) -> None:
    if record.expire_ms != -1:
        writer.int16(1)
        writer.int64(record.offset)
        writer.string(record.metadata, False)
        writer.int64(record.commit_ms)
        writer.int64(record.expire_ms)
        return
    writer.buffer += _VERSION_4.pack(4, record.offset, record.leader_epoch)
    writer.string(record.metadata, True)
    writer.int64(record.commit_ms)
    if record.topic_id == NO_UUID:
        writer.no_tagged_fields()
    else:
        writer.buffer += _TOPIC_ID_ALONE
        writer.uuid(record.topic_id)


OFFSET: Final = Kind(OffsetCommitted, OffsetRemoved, ("group", "topic", "partition"), 4, _read, _write)


def encode_committed(record: OffsetCommitted) -> KeyValue | None:
    """The record as `record_codec.encode` writes it, in a third of the time. None if the record needs the general codec. Raises
    struct.error for values that do not fit."""
    metadata = record.metadata
    if record.expire_ms != -1 or len(metadata) > _SHORT or len(record.topic_id) != 16:
        return None
    group, topic, encoded_metadata = record.group.encode(), record.topic.encode(), metadata.encode()
    key = b"".join(
        (_KIND_AND_LENGTH.pack(_NUMBER, len(group)), group, _LENGTH.pack(len(topic)), topic, _PARTITION.pack(record.partition))
    )
    head = _VERSION_4_TO_METADATA.pack(4, record.offset, record.leader_epoch, len(encoded_metadata) + 1)
    tagged = _NO_TAGS if record.topic_id == NO_UUID else _TOPIC_ID_ALONE + record.topic_id
    return KeyValue(key, b"".join((head, encoded_metadata, _COMMIT_MS.pack(record.commit_ms), tagged)))
