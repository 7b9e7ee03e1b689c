"""Values of the records of consumer groups (KIP-848). All have one version, 0, with compact encodings."""

from dataclasses import replace
from typing import Final

from libs.coordinator.core.record_writer import RecordWriter
from libs.wire.primitives import Reader, Writer
from services.group_coordinator.core.model.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupChanged,
    ConsumerGroupRemoved,
    ConsumerMemberChanged,
    ConsumerMemberRemoved,
    ConsumerTopicsRemoved,
    ConsumerTopicsSeen,
    CurrentAssignmentChanged,
    CurrentAssignmentRemoved,
    MemberState,
    RegularExpressionRemoved,
    RegularExpressionResolved,
    TargetAssignmentChanged,
    TargetAssignmentRemoved,
    TargetEpochChanged,
    TargetEpochRemoved,
    TopicPartitions,
    TopicSeen,
)
from services.group_coordinator.core.record_formats.record_kind import GROUP, MEMBER, Kind, write_compact_string

_METADATA_HASH: Final = 0
_CLASSIC: Final = 0
_CLASSIC_BY_DEFAULT: Final = ClassicMemberMetadata(0, ())
"""The value that Kafka reads from a record without the tag. A member of the consumer protocol has a tag with a null."""
_STATES: Final = {state.value: state for state in MemberState}


def _read_group(reader: Reader, _version: int, group: str) -> ConsumerGroupChanged:
    epoch = reader.int32()
    metadata_hash = 0
    for tag, field in reader.tagged_fields():
        if tag == _METADATA_HASH:
            metadata_hash = field.int64()
            field.expect_end()
    return ConsumerGroupChanged(group, epoch, metadata_hash)


def _write_group(writer: Writer, record: ConsumerGroupChanged) -> None:
    writer.int16(0)
    writer.int32(record.epoch)
    if record.metadata_hash == 0:
        writer.no_tagged_fields()
    else:
        field = Writer()
        field.int64(record.metadata_hash)
        writer.tagged_fields([(_METADATA_HASH, field)])


def _read_topics(reader: Reader, _version: int, group: str) -> ConsumerTopicsSeen:
    record = ConsumerTopicsSeen(group, tuple(reader.array(True, _read_topic)))
    reader.skip_tagged_fields()
    return record


def _read_topic(reader: Reader) -> TopicSeen:
    topic = TopicSeen(reader.uuid(), reader.string(True), reader.int32(), tuple(reader.array(True, _read_racks)))
    reader.skip_tagged_fields()
    return topic


def _read_racks(reader: Reader) -> tuple[int, tuple[str, ...]]:
    racks = reader.int32(), tuple(reader.array(True, Reader.string, True))
    reader.skip_tagged_fields()
    return racks


def _write_topics(writer: Writer, record: ConsumerTopicsSeen) -> None:
    writer.int16(0)
    writer.array(record.topics, True, _write_topic)
    writer.no_tagged_fields()


def _write_topic(writer: Writer, topic: TopicSeen) -> None:
    writer.uuid(topic.topic_id)
    writer.string(topic.topic, True)
    writer.int32(topic.partition_count)
    writer.array(topic.racks, True, _write_racks)
    writer.no_tagged_fields()


def _write_racks(writer: Writer, racks: tuple[int, tuple[str, ...]]) -> None:
    partition, names = racks
    writer.int32(partition)
    writer.array(names, True, write_compact_string)
    writer.no_tagged_fields()


def _read_member(reader: Reader, _version: int, group: str, member_id: str) -> ConsumerMemberChanged:
    record = ConsumerMemberChanged(
        group=group,
        member_id=member_id,
        instance_id=reader.nullable_string(True),
        rack_id=reader.nullable_string(True),
        client_id=reader.string(True),
        client_host=reader.string(True),
        subscribed_topics=tuple(reader.array(True, Reader.string, True)),
        subscribed_regex=reader.nullable_string(True),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.nullable_string(True),
    )
    classic: ClassicMemberMetadata | None = _CLASSIC_BY_DEFAULT
    for tag, field in reader.tagged_fields():
        if tag == _CLASSIC:
            classic = _read_classic(field) if field.uvarint() else None
            field.expect_end()
    return replace(record, classic=classic)


def _read_classic(reader: Reader) -> ClassicMemberMetadata:
    classic = ClassicMemberMetadata(reader.int32(), tuple(reader.array(True, _read_protocol)))
    reader.skip_tagged_fields()
    return classic


def _read_protocol(reader: Reader) -> ClassicProtocol:
    protocol = ClassicProtocol(reader.string(True), bytes(reader.data(True)))
    reader.skip_tagged_fields()
    return protocol


def _write_member(writer: Writer, record: ConsumerMemberChanged) -> None:
    writer.int16(0)
    writer.nullable_string(record.instance_id, True)
    writer.nullable_string(record.rack_id, True)
    writer.string(record.client_id, True)
    writer.string(record.client_host, True)
    writer.array(record.subscribed_topics, True, write_compact_string)
    writer.nullable_string(record.subscribed_regex, True)
    writer.int32(record.rebalance_timeout_ms)
    writer.nullable_string(record.server_assignor, True)
    if record.classic == _CLASSIC_BY_DEFAULT:
        writer.no_tagged_fields()
        return
    field = RecordWriter()
    field.uvarint(0 if record.classic is None else 1)
    if record.classic is not None:
        _write_classic(field, record.classic)
    writer.tagged_fields([(_CLASSIC, field)])


def _write_classic(writer: Writer, classic: ClassicMemberMetadata) -> None:
    writer.int32(classic.session_timeout_ms)
    writer.array(classic.protocols, True, _write_protocol)
    writer.no_tagged_fields()


def _write_protocol(writer: Writer, protocol: ClassicProtocol) -> None:
    writer.string(protocol.name, True)
    writer.data(protocol.metadata, True)
    writer.no_tagged_fields()


def _read_epoch(reader: Reader, _version: int, group: str) -> TargetEpochChanged:
    record = TargetEpochChanged(group, reader.int32())
    reader.skip_tagged_fields()
    return record


def _write_epoch(writer: Writer, record: TargetEpochChanged) -> None:
    writer.int16(0)
    writer.int32(record.assignment_epoch)
    writer.no_tagged_fields()


def _read_target(reader: Reader, _version: int, group: str, member_id: str) -> TargetAssignmentChanged:
    record = TargetAssignmentChanged(group, member_id, tuple(reader.array(True, _read_partitions)))
    reader.skip_tagged_fields()
    return record


def _write_target(writer: Writer, record: TargetAssignmentChanged) -> None:
    writer.int16(0)
    writer.array(record.assigned, True, _write_partitions)
    writer.no_tagged_fields()


def _read_current(reader: Reader, _version: int, group: str, member_id: str) -> CurrentAssignmentChanged:
    record = CurrentAssignmentChanged(
        group=group,
        member_id=member_id,
        member_epoch=reader.int32(),
        previous_member_epoch=reader.int32(),
        state=_STATES.get(reader.int8(), MemberState.UNKNOWN),
        assigned=tuple(reader.array(True, _read_partitions)),
        pending_revocation=tuple(reader.array(True, _read_partitions)),
    )
    reader.skip_tagged_fields()
    return record


def _write_current(writer: Writer, record: CurrentAssignmentChanged) -> None:
    writer.int16(0)
    writer.int32(record.member_epoch)
    writer.int32(record.previous_member_epoch)
    writer.int8(record.state)
    writer.array(record.assigned, True, _write_partitions)
    writer.array(record.pending_revocation, True, _write_partitions)
    writer.no_tagged_fields()


def _read_partitions(reader: Reader) -> TopicPartitions:
    partitions = TopicPartitions(reader.uuid(), tuple(reader.array(True, Reader.int32)))
    reader.skip_tagged_fields()
    return partitions


def _write_partitions(writer: Writer, partitions: TopicPartitions) -> None:
    writer.uuid(partitions.topic_id)
    writer.array(partitions.partitions, True, Writer.int32)
    writer.no_tagged_fields()


def _read_regex(reader: Reader, _version: int, group: str, regex: str) -> RegularExpressionResolved:
    topics = tuple(reader.array(True, Reader.string, True))
    record = RegularExpressionResolved(group, regex, topics, reader.int64(), reader.int64())
    reader.skip_tagged_fields()
    return record


def _write_regex(writer: Writer, record: RegularExpressionResolved) -> None:
    writer.int16(0)
    writer.array(record.topics, True, write_compact_string)
    writer.int64(record.version)
    writer.int64(record.resolved_ms)
    writer.no_tagged_fields()


CONSUMER_GROUP: Final = Kind(ConsumerGroupChanged, ConsumerGroupRemoved, GROUP, 0, _read_group, _write_group)
TOPICS_SEEN: Final = Kind(ConsumerTopicsSeen, ConsumerTopicsRemoved, GROUP, 0, _read_topics, _write_topics)
CONSUMER_MEMBER: Final = Kind(ConsumerMemberChanged, ConsumerMemberRemoved, MEMBER, 0, _read_member, _write_member)
TARGET_EPOCH: Final = Kind(TargetEpochChanged, TargetEpochRemoved, GROUP, 0, _read_epoch, _write_epoch)
TARGET_ASSIGNMENT: Final = Kind(TargetAssignmentChanged, TargetAssignmentRemoved, MEMBER, 0, _read_target, _write_target)
CURRENT_ASSIGNMENT: Final = Kind(CurrentAssignmentChanged, CurrentAssignmentRemoved, MEMBER, 0, _read_current, _write_current)
REGULAR_EXPRESSION: Final = Kind(
    RegularExpressionResolved, RegularExpressionRemoved, ("group", "regex"), 0, _read_regex, _write_regex
)
