"""Fetch (1), versions 4-18, by hand: its records are not ours to touch. Flexible from 12; topic ids from 13.

The response is written as pieces: bytes of our own between records that somebody else has, in memory or in files. The length
of the frame is known before any of them moves.
"""

import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Final, Generic, NamedTuple, TypeVar

from libs.lean_dataclass import dataclass
from libs.wire.api_keys import ApiKey
from libs.wire.headers import write_response_header
from libs.wire.messages.endpoints import NodeEndpoint, current_leader, write_node_endpoints
from libs.wire.primitives import NO_UUID, ProtocolError, Reader, Writer, not_null

R = TypeVar("R")

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
FIRST_WITH_TOPIC_IDS: Final = 13

_FRAME_LENGTH = struct.Struct(">i")
_LIMITS = struct.Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION = struct.Struct(">ii")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_STATE_V4 = struct.Struct(">ihqq")  # index, error code, high watermark, last stable offset
_STATE_V5 = struct.Struct(">ihqqq")  # and log start offset
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iqb")  # epoch, end offset, and no tagged fields of its own
_INT32 = struct.Struct(">i")


class FetchPartition(NamedTuple):
    """Where to read. Epochs and `log_start_offset` are -1 where the version or the client does not say."""

    partition_index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchTopic:
    """`name` up to version 12, `topic_id` (16 bytes) from 13; the other is None."""

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


@dataclass(slots=True)
class FetchRequest:
    """`replica_id` is -1 for consumers. `forgotten` holds (name, topic id, partition indexes) for incremental sessions."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[tuple[str | None, bytes | None, list[int]]]
    rack_id: str = ""
    cluster_id: str | None = None
    replica_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """The state that travels with a partition's records.

    `aborted` (producer id, first offset): None for read_uncommitted. `diverging` and the leader hint are left out at -1.
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1


def read_fetch(reader: Reader, version: int) -> FetchRequest:
    flexible = version >= 12
    replica_id = reader.int32() if version <= 14 else -1
    if reader.remaining < 13:
        raise ProtocolError("frame ends inside the limits of a Fetch")
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(reader.view, reader.position)
    reader.position += 13
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = reader.int32(), reader.int32()
    topics = reader.array(flexible, _read_topic, version)
    forgotten = reader.array(flexible, _read_forgotten, version) if version >= 7 else []
    rack_id = reader.string(flexible) if version >= 11 else ""
    cluster_id, replica_epoch = None, -1
    if flexible:
        for tag, tagged in reader.tagged_fields():
            if tag == 0:
                cluster_id = tagged.nullable_string(flexible)
            elif tag == 1 and version >= 15:
                replica_id, replica_epoch = tagged.int32(), tagged.int64()
                tagged.skip_tagged_fields()
            else:
                continue
            tagged.expect_end()
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
        replica_epoch,
    )


def _read_name_or_id(reader: Reader, version: int) -> tuple[str | None, bytes | None]:
    return (None, reader.uuid()) if version >= FIRST_WITH_TOPIC_IDS else (reader.string(version >= 12), None)


def _read_topic(reader: Reader, version: int) -> FetchTopic:
    flexible = version >= 12
    name, topic_id = _read_name_or_id(reader, version)
    partitions = reader.array(flexible, _read_partition, version)
    if flexible:
        reader.skip_tagged_fields()
    return FetchTopic(name, topic_id, partitions)


def _read_partition(reader: Reader, version: int) -> FetchPartition:
    layout = (
        _PARTITION_V12 if version >= 12 else _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    )
    if reader.remaining < layout.size:
        raise ProtocolError("frame ends inside a partition of a Fetch")
    fields = layout.unpack_from(reader.view, reader.position)
    reader.position += layout.size
    if version >= 12:
        # Tagged: a directory id (17+) and a high watermark (18+), which only followers send.
        reader.skip_tagged_fields()
        index, leader_epoch, offset, fetched_epoch, log_start, max_bytes = fields
        return FetchPartition(index, offset, max_bytes, leader_epoch, fetched_epoch, log_start)
    if version >= 9:
        index, leader_epoch, offset, log_start, max_bytes = fields
        return FetchPartition(index, offset, max_bytes, leader_epoch, -1, log_start)
    if version >= 5:
        index, offset, log_start, max_bytes = fields
        return FetchPartition(index, offset, max_bytes, -1, -1, log_start)
    index, offset, max_bytes = fields
    return FetchPartition(index, offset, max_bytes)


def _read_forgotten(reader: Reader, version: int) -> tuple[str | None, bytes | None, list[int]]:
    flexible = version >= 12
    name, topic_id = _read_name_or_id(reader, version)
    partitions = reader.array(flexible, Reader.int32)
    if flexible:
        reader.skip_tagged_fields()
    return name, topic_id, partitions


@dataclass(slots=True)
class FetchResponse(Generic[R]):
    """A whole frame, length prefix included: what to send, in order, and how many bytes that is."""

    pieces: list[bytearray | R] = field(default_factory=list)
    length: int = 0


class FetchResponseWriter(Generic[R]):
    """Writes a response in the order of its bytes: each topic with `begin_topic`, its partitions with `partition`, then `finish`.

    R is whatever the caller sends records as (views, file ranges): opaque here, only its length is told.
    """

    __slots__ = ("_flexible", "_pieces", "_records_length", "_version", "_writer")

    def __init__(
        self,
        version: int,
        correlation_id: int,
        topic_count: int,
        *,
        throttle_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None:
        """`error_code` (top level) and `session_id` travel from version 7 on."""
        self._version = version
        self._flexible = version >= 12
        self._pieces: list[bytearray | R] = []
        self._records_length = 0
        self._writer = writer = Writer()
        writer.buffer += b"\0\0\0\0"  # the frame's length, patched by finish
        write_response_header(writer, ApiKey.FETCH, version, correlation_id)
        writer.int32(throttle_ms)
        if version >= 7:
            writer.int16(error_code)
            writer.int32(session_id)
        writer.array_length(topic_count, self._flexible)

    def begin_topic(self, name: str | None, topic_id: bytes | None, partition_count: int) -> None:
        if self._version >= FIRST_WITH_TOPIC_IDS:
            self._writer.uuid(topic_id or NO_UUID)
        else:
            self._writer.string(not_null(name), self._flexible)
        self._writer.array_length(partition_count, self._flexible)

    def end_topic(self) -> None:
        if self._flexible:
            self._writer.no_tagged_fields()

    def partition(self, state: FetchedPartition, records: Sequence[R] = (), records_length: int = 0) -> None:
        """`records` together have `records_length` bytes. None at all are written as empty, not as null: Java expects that."""
        version, writer, flexible = self._version, self._writer, self._flexible
        if version >= 5:
            writer.buffer += _STATE_V5.pack(
                state.index, state.error_code, state.high_watermark, state.last_stable_offset, state.log_start_offset
            )
        else:
            writer.buffer += _STATE_V4.pack(state.index, state.error_code, state.high_watermark, state.last_stable_offset)
        if state.aborted is None:
            writer.array_length(-1, flexible)
        else:
            writer.array_length(len(state.aborted), flexible)
            for producer_id, first_offset in state.aborted:
                writer.buffer += _ABORTED.pack(producer_id, first_offset)
                if flexible:
                    writer.no_tagged_fields()
        if version >= 11:
            writer.buffer += _INT32.pack(state.preferred_read_replica)
        writer.data_length(records_length, flexible)
        if records:
            self._pieces.append(writer.buffer)
            self._pieces.extend(records)
            self._records_length += records_length
            self._writer = writer = Writer()
        if flexible:
            self._partition_tags(writer, state)

    def _partition_tags(self, writer: Writer, state: FetchedPartition) -> None:
        tagged: list[tuple[int, Writer]] = []
        if state.diverging_epoch >= 0:
            diverging = Writer()
            diverging.buffer += _DIVERGING.pack(state.diverging_epoch, state.diverging_end_offset, 0)
            tagged.append((0, diverging))
        if state.leader_id >= 0:
            leader = Writer()
            leader.buffer += current_leader(state.leader_id, state.leader_epoch)
            tagged.append((1, leader))
        writer.tagged_fields(tagged)

    def finish(self, node_endpoints: Sequence[NodeEndpoint] = ()) -> FetchResponse[R]:
        """`node_endpoints` say where the leaders hinted at are; versions below 16 leave them out."""
        writer = self._writer
        if self._flexible:
            write_node_endpoints(writer, node_endpoints if self._version >= 16 else ())
        if writer.buffer:
            self._pieces.append(writer.buffer)
        length = self._records_length + sum(len(piece) for piece in self._own())
        _FRAME_LENGTH.pack_into(self._own()[0], 0, length - 4)
        return FetchResponse(self._pieces, length)

    def _own(self) -> list[bytearray]:
        return [piece for piece in self._pieces if isinstance(piece, bytearray)]
