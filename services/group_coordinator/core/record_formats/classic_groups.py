"""GroupMetadataValue, versions 0-4. Version 3 is written: Kafka uses the compact encodings of version 4 only when it needs them.

Version 1 added rebalance timeouts, version 2 the time of the last change, version 3 instance ids.
"""

from typing import Final

from libs.wire.primitives import Reader, Writer
from services.group_coordinator.core.model.records import ClassicGroupChanged, ClassicGroupRemoved, ClassicMember
from services.group_coordinator.core.record_formats.record_kind import GROUP, Kind

_WRITTEN: Final = 3


def _read(reader: Reader, version: int, group: str) -> ClassicGroupChanged:
    flexible = version >= 4
    record = ClassicGroupChanged(
        group=group,
        protocol_type=reader.string(flexible),
        generation=reader.int32(),
        protocol=reader.nullable_string(flexible),
        leader=reader.nullable_string(flexible),
        state_changed_ms=reader.int64() if version >= 2 else -1,
        members=tuple(reader.array(flexible, _read_member, version)),
    )
    if flexible:
        reader.skip_tagged_fields()
    return record


def _read_member(reader: Reader, version: int) -> ClassicMember:
    flexible = version >= 4
    member_id = reader.string(flexible)
    instance_id = reader.nullable_string(flexible) if version >= 3 else None
    client_id = reader.string(flexible)
    client_host = reader.string(flexible)
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = bytes(reader.data(flexible))
    assignment = bytes(reader.data(flexible))
    if flexible:
        reader.skip_tagged_fields()
    if rebalance_timeout_ms == -1:  # as Kafka does
        rebalance_timeout_ms = session_timeout_ms
    return ClassicMember(
        member_id, instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms, subscription, assignment
    )


def _write(writer: Writer, record: ClassicGroupChanged) -> None:
    writer.int16(_WRITTEN)
    writer.string(record.protocol_type, False)
    writer.int32(record.generation)
    writer.nullable_string(record.protocol, False)
    writer.nullable_string(record.leader, False)
    writer.int64(record.state_changed_ms)
    writer.array(record.members, False, _write_member)


def _write_member(writer: Writer, member: ClassicMember) -> None:
    writer.string(member.member_id, False)
    writer.nullable_string(member.instance_id, False)
    writer.string(member.client_id, False)
    writer.string(member.client_host, False)
    writer.int32(member.rebalance_timeout_ms)
    writer.int32(member.session_timeout_ms)
    writer.data(member.subscription, False)
    writer.data(member.assignment, False)


CLASSIC_GROUP: Final = Kind(ClassicGroupChanged, ClassicGroupRemoved, GROUP, 4, _read, _write)
