"""The subscriptions and assignments that consumers put into JoinGroup and SyncGroup under the protocol type "consumer".

To a classic group these are bytes, which its leader reads and writes. A coordinator reads them too, for the topics to which a
group subscribes, and in groups with members of both protocols. A version comes first, then fields, never in compact encodings.
Version 1 added owned partitions, version 2 the generation in which they were owned, version 3 the rack.

Kafka's rules: a version above 3 is read as 3, since later ones only add fields; bytes after the fields are passed over.
"""

from typing import Final

from libs.lean_dataclass import dataclass
from libs.wire.primitives import ProtocolError, Reader, Writer

PROTOCOL_TYPE: Final = "consumer"
LAST_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """Kafka's name for all partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerProtocolSubscription:
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()  # 1+
    generation_id: int = -1  # 2+
    rack_id: str | None = None  # 3+


@dataclass(frozen=True, slots=True)
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def version_of(data: bytes | memoryview) -> int:
    """The version that its writer gave, also above LAST_VERSION. Raises ProtocolError, as all readers here."""
    return _versioned(data)[1]


def read_subscription(data: bytes | memoryview, up_to: int = LAST_VERSION) -> ConsumerProtocolSubscription:
    """Reads a subscription. Fields of versions above `up_to` are not looked at. 0 suffices for the topics alone, as Kafka's
    groups read them."""
    reader, version = _versioned(data)
    version = min(version, up_to)
    return ConsumerProtocolSubscription(
        topics=tuple(reader.array(False, Reader.string, False)),
        user_data=_bytes(reader.nullable_data(False)),
        owned_partitions=tuple(reader.array(False, _read_partitions)) if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_string(False) if version >= 3 else None,
    )


def write_subscription(subscription: ConsumerProtocolSubscription, version: int = LAST_VERSION) -> bytes:
    """Writes in LAST_VERSION where `version` is higher."""
    version = min(version, LAST_VERSION)
    writer = Writer()
    writer.int16(version)
    writer.array(subscription.topics, False, Writer.string, False)
    writer.nullable_data(subscription.user_data, False)
    if version >= 1:
        writer.array(subscription.owned_partitions, False, _write_partitions)
    if version >= 2:
        writer.int32(subscription.generation_id)
    if version >= 3:
        writer.nullable_string(subscription.rack_id, False)
    return bytes(writer.buffer)


def read_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Reads an assignment. All versions have the same fields."""
    reader, _ = _versioned(data)
    assigned = tuple(reader.array(False, _read_partitions))
    return ConsumerProtocolAssignment(assigned, _bytes(reader.nullable_data(False)))


def write_assignment(assignment: ConsumerProtocolAssignment, version: int = LAST_VERSION) -> bytes:
    """Writes in LAST_VERSION where `version` is higher."""
    writer = Writer()
    writer.int16(min(version, LAST_VERSION))
    writer.array(assignment.assigned_partitions, False, _write_partitions)
    writer.nullable_data(assignment.user_data, False)
    return bytes(writer.buffer)


def _versioned(data: bytes | memoryview) -> tuple[Reader, int]:
    reader = Reader(memoryview(data))
    version = reader.int16()
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol")
    return reader, version


def _read_partitions(reader: Reader) -> TopicPartition:
    return TopicPartition(reader.string(False), tuple(reader.array(False, Reader.int32)))


def _write_partitions(writer: Writer, partitions: TopicPartition) -> None:
    writer.string(partitions.topic, False)
    writer.array(partitions.partitions, False, Writer.int32)


def _bytes(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)
