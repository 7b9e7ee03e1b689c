"""Produce (0), versions 3-13, by hand: the hottest request. Flexible from 9; topic ids instead of names from 13.

Records are views of the frame, never copies. Requests are only read and responses only written here.
"""

import struct
from collections.abc import Sequence
from typing import Final

from libs.lean_dataclass import dataclass
from libs.wire.messages.endpoints import NodeEndpoint, write_current_leader, write_node_endpoints
from libs.wire.primitives import NO_UUID, ProtocolError, Reader, Writer, not_null

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
FIRST_WITH_TOPIC_IDS: Final = 13

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_V2_TO_V4 = struct.Struct(">ihqq")  # index, error code, base offset, log append time
_V5_ON = struct.Struct(">ihqqq")  # and log start offset


@dataclass(slots=True)
class ProduceTopic:
    """`name` up to version 12, `topic_id` (16 bytes) from 13; the other is None. `partitions`: (index, records or None)."""

    name: str | None
    topic_id: bytes | None
    partitions: list[tuple[int, memoryview | None]]


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


@dataclass(slots=True)
class ProducedPartition:
    """What became of one partition's batch. `leader_id` and `leader_epoch` are hints with error 6, from version 10."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()  # (index in the batch, message)
    error_message: str | None = None
    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class ProducedTopic:
    """Named as the request named it."""

    name: str | None
    topic_id: bytes | None
    partitions: list[ProducedPartition]


def read_produce(reader: Reader, version: int) -> ProduceRequest:
    flexible = version >= 9
    transactional_id = reader.nullable_string(flexible)
    if reader.remaining < 6:
        raise ProtocolError("frame ends before acks and timeout")
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(reader.view, reader.position)
    reader.position += 6
    topics = []
    for _ in range(reader.array_length(flexible)):
        name = topic_id = None
        if version >= FIRST_WITH_TOPIC_IDS:
            topic_id = reader.uuid()
        else:
            name = reader.string(flexible)
        partitions = []
        for _ in range(reader.array_length(flexible)):
            index = reader.int32()
            records = reader.nullable_data(flexible)
            if flexible:
                reader.skip_tagged_fields()
            partitions.append((index, records))
        if flexible:
            reader.skip_tagged_fields()
        topics.append(ProduceTopic(name, topic_id, partitions))
    if flexible:
        reader.skip_tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def write_produce_response(
    writer: Writer,
    version: int,
    topics: Sequence[ProducedTopic],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> None:
    """`node_endpoints` say where the leaders hinted at are (KIP-951); versions below 10 leave them out."""
    flexible = version >= 9
    writer.array_length(len(topics), flexible)
    for topic in topics:
        if version >= FIRST_WITH_TOPIC_IDS:
            writer.uuid(topic.topic_id or NO_UUID)
        else:
            writer.string(not_null(topic.name), flexible)
        writer.array_length(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _write_partition(writer, version, flexible, partition)
        if flexible:
            writer.no_tagged_fields()
    writer.buffer += _INT32.pack(throttle_ms)
    if flexible:
        write_node_endpoints(writer, node_endpoints if version >= 10 else ())


def _write_partition(writer: Writer, version: int, flexible: bool, p: ProducedPartition) -> None:
    if version < 5:
        writer.buffer += _V2_TO_V4.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms)
        return
    writer.buffer += _V5_ON.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
    if version >= 8:
        writer.array_length(len(p.record_errors), flexible)
        for batch_index, message in p.record_errors:
            writer.int32(batch_index)
            writer.nullable_string(message, flexible)
            if flexible:
                writer.no_tagged_fields()
        writer.nullable_string(p.error_message, flexible)
    if flexible:
        if version >= 10 and p.leader_id >= 0:
            write_current_leader(writer, 0, p.leader_id, p.leader_epoch)
        else:
            writer.no_tagged_fields()
