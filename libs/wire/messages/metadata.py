"""Metadata (3), versions 0-13, by hand: the response is large, and every client asks for it. Flexible from 9.

Version 1 lets null ask for all topics, 4 adds allow_auto_topic_creation, 8 authorized operations (the cluster's only until
10), 10 topic ids, 12 requests by id, 13 a top-level error.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final, NamedTuple

from libs.lean_dataclass import dataclass
from libs.wire.primitives import NO_UUID, Reader, Writer, not_null

MIN_VERSION: Final = 0
MAX_VERSION: Final = 13

NOT_ASKED: Final = -2147483648
"""Authorized operations that were not asked for."""

# librdkafka (2.16, list_topics) writes "all topics" as an int32 of zero where one byte belongs. Kafka reads on from the second
# byte and ignores what is left over at the end, so these requests must be answered.
_LIBRDKAFKA_LEFTOVER: Final = 3


class RequestedTopic(NamedTuple):
    """By id when `name` is None (12+). In versions 10 and 11 the id is on the wire, but may not be used."""

    name: str | None
    topic_id: bytes = NO_UUID


@dataclass(slots=True)
class MetadataRequest:
    topics: list[RequestedTopic] | None  # None: all
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataBroker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataPartition(NamedTuple):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()


@dataclass(slots=True)
class MetadataTopic:
    error_code: int
    name: str | None  # None (12+): asked for by an id that nobody has, or may not be seen
    topic_id: bytes = NO_UUID
    is_internal: bool = False
    partitions: list[MetadataPartition] = field(default_factory=list)
    authorized_operations: int = NOT_ASKED


@dataclass(slots=True)
class MetadataResponse:
    brokers: list[MetadataBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataTopic]
    cluster_authorized_operations: int = NOT_ASKED
    error_code: int = 0
    throttle_ms: int = 0


def read_request(reader: Reader, version: int) -> MetadataRequest:
    flexible = version >= 9
    topics: list[RequestedTopic] | None
    if version >= 1:
        topics = reader.nullable_array(flexible, _read_topic, version)
    else:
        topics = reader.array(flexible, _read_topic, version) or None  # version 0 has no null: empty asks for all
    message = MetadataRequest(topics)
    if version >= 4:
        message.allow_auto_topic_creation = reader.boolean()
    if 8 <= version <= 10:
        message.include_cluster_authorized_operations = reader.boolean()
    if version >= 8:
        message.include_topic_authorized_operations = reader.boolean()
    if flexible:
        reader.skip_tagged_fields()
        if topics is None and reader.remaining == _LIBRDKAFKA_LEFTOVER:
            reader.position = reader.end
    return message


def _read_topic(reader: Reader, version: int) -> RequestedTopic:
    topic_id = reader.uuid() if version >= 10 else NO_UUID
    name = reader.nullable_string(True) if version >= 10 else reader.string(version >= 9)
    if version >= 9:
        reader.skip_tagged_fields()
    return RequestedTopic(name, topic_id)


def write_response(writer: Writer, message: MetadataResponse, version: int) -> None:
    flexible = version >= 9
    if version >= 3:
        writer.int32(message.throttle_ms)
    writer.array_length(len(message.brokers), flexible)
    for broker in message.brokers:
        writer.int32(broker.node_id)
        writer.string(broker.host, flexible)
        writer.int32(broker.port)
        if version >= 1:
            writer.nullable_string(broker.rack, flexible)
        if flexible:
            writer.no_tagged_fields()
    if version >= 2:
        writer.nullable_string(message.cluster_id, flexible)
    if version >= 1:
        writer.int32(message.controller_id)
    writer.array_length(len(message.topics), flexible)
    for topic in message.topics:
        _write_topic(writer, topic, version)
    if 8 <= version <= 10:
        writer.int32(message.cluster_authorized_operations)
    if version >= 13:
        writer.int16(message.error_code)
    if flexible:
        writer.no_tagged_fields()


def _write_topic(writer: Writer, topic: MetadataTopic, version: int) -> None:
    flexible = version >= 9
    writer.int16(topic.error_code)
    if version >= 12:
        writer.nullable_string(topic.name, flexible)
    else:
        writer.string(not_null(topic.name), flexible)
    if version >= 10:
        writer.uuid(topic.topic_id)
    if version >= 1:
        writer.boolean(topic.is_internal)
    writer.array_length(len(topic.partitions), flexible)
    _write_partitions(writer.buffer, topic.partitions, version)
    if version >= 8:
        writer.int32(topic.authorized_operations)
    if flexible:
        writer.no_tagged_fields()


def _write_partitions(buffer: bytearray, partitions: Sequence[MetadataPartition], version: int) -> None:
    """One pack for a whole partition: a hundred topics of ten partitions are a thousand of these."""
    end = (0,) if version >= 9 else ()  # no tagged fields
    shape: tuple[int, int, int] | None = None
    for error_code, index, leader_id, leader_epoch, replicas, isr, offline in partitions:
        if shape != (shape := (len(replicas), len(isr), len(offline))):
            pack, replica_count, isr_count, offline_count = _layout(version, *shape)
        if version >= 7:
            buffer += pack(
                error_code,
                index,
                leader_id,
                leader_epoch,
                replica_count,
                *replicas,
                isr_count,
                *isr,
                offline_count,
                *offline,
                *end,
            )
        elif version >= 5:
            buffer += pack(error_code, index, leader_id, replica_count, *replicas, isr_count, *isr, offline_count, *offline)
        else:
            buffer += pack(error_code, index, leader_id, replica_count, *replicas, isr_count, *isr)


@lru_cache(maxsize=1024)
def _layout(version: int, replicas: int, isr: int, offline: int) -> tuple[Callable[..., bytes], object, object, object]:
    """How to pack a partition with so many replicas, and its three array counts as they are packed."""
    sizes = (replicas, isr, offline)
    epoch = "i" if version >= 7 else ""
    if version < 9:
        tail = f"i{offline}i" if version >= 5 else ""
        return struct.Struct(f">hii{epoch}i{replicas}ii{isr}i{tail}").pack, *sizes
    counts = (_uvarint(replicas + 1), _uvarint(isr + 1), _uvarint(offline + 1))
    arrays = "".join(f"{len(count)}s{size}i" for count, size in zip(counts, sizes, strict=True))
    return struct.Struct(f">hii{epoch}{arrays}b").pack, *counts


def _uvarint(value: int) -> bytes:
    writer = Writer()
    writer.uvarint(value)
    return bytes(writer.buffer)
