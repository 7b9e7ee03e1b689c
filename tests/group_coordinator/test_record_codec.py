"""The records of `__consumer_offsets`: bytes worked out from Kafka's schemas, every version that may be read, and all else."""

import dataclasses
import struct
import types
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.primitives import NO_UUID
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.records import (
    ClassicGroupChanged,
    ClassicMember,
    ClassicMemberMetadata,
    ConsumerGroupChanged,
    ConsumerMemberChanged,
    CurrentAssignmentChanged,
    MemberState,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    RegularExpressionResolved,
    TargetAssignmentChanged,
    TargetEpochChanged,
)
from services.group_coordinator.core.record_formats import record_codec
from services.group_coordinator.core.record_formats.record_codec import decode
from tests.group_coordinator.sample_records import (
    CLASSIC_MEMBER,
    NEWCOMER,
    PARTITIONS,
    SAMPLES,
    SPEAKS_CLASSIC,
    TOPIC_ID,
    written,
)

KINDS = typing.get_args(Record)
INT64 = {"offset", "commit_ms", "expire_ms", "state_changed_ms", "metadata_hash", "version", "resolved_ms"}


def values(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.none() | values(name, typing.get_args(hint)[0])
    if typing.get_origin(hint) is tuple:
        first, *rest = typing.get_args(hint)
        if rest == [...]:
            return st.lists(values("", first), max_size=3).map(tuple)
        return st.tuples(values("", first), *(values("", other) for other in rest))
    if hint is str:
        return st.text(max_size=12)
    if hint is bytes:
        return st.binary(min_size=16, max_size=16) | st.just(NO_UUID) if name == "topic_id" else st.binary(max_size=40)
    if hint is MemberState:
        return st.sampled_from(MemberState)
    if hint is int:
        limit = 1 << (63 if name in INT64 else 31)
        return st.integers(-limit, limit - 1) | st.integers(-1, 3)
    return any_of(hint)


def any_of(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: values(name, hint) for name, hint in hints.items()})


def kept(record: Record) -> Record:
    """The part of a record that its format keeps."""
    match record:
        case OffsetCommitted(expire_ms=expire_ms) if expire_ms != -1:
            return record._replace(leader_epoch=-1, topic_id=NO_UUID)
        case ClassicGroupChanged(members=members):
            return dataclasses.replace(record, members=tuple(with_rebalance_timeout(member) for member in members))
    return record


def with_rebalance_timeout(member: ClassicMember) -> ClassicMember:
    unset = member.rebalance_timeout_ms == -1
    return dataclasses.replace(member, rebalance_timeout_ms=member.session_timeout_ms) if unset else member


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_written_records_are_read_again(cls: type, data: st.DataObject) -> None:
    record = data.draw(any_of(cls))
    assert decode(*written(record)) == kept(record)


TEXTS = st.text(max_size=12) | st.sampled_from(["", "x" * 31, "ü" * 31, "\U0001f600" * 31, "x" * 32, "x" * 200])


@settings(deadline=None)
@given(any_of(OffsetCommitted), TEXTS, TEXTS)
def test_a_commit_is_written_quickly_as_it_is_by_its_format(record: OffsetCommitted, group: str, metadata: str) -> None:
    record = record._replace(group=group, metadata=metadata)
    assert record_codec.encode(record) == record_codec.encode_by_kind(record)


@pytest.mark.parametrize(
    "record",
    [OffsetCommitted("g" * 32_768, "t", 0, 1), OffsetCommitted("g", "t" * 32_768, 0, 1), OffsetCommitted("g", "t", 1 << 31, 1)],
    ids=["group", "topic", "partition"],
)
def test_a_commit_that_does_not_fit_is_refused(record: OffsetCommitted) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        record_codec.encode(record)


def test_there_is_a_sample_of_each_kind() -> None:
    assert {type(record) for record in SAMPLES} == set(KINDS)


def test_changes_and_their_tombstones_share_a_key() -> None:
    for change in (record for record in SAMPLES if not type(record).__name__.endswith("Removed")):
        key, _ = written(change)
        removed = decode(key, None)
        assert removed is not None
        assert type(removed) in typing.get_args(records.Removed)
        assert written(removed) == (key, None)


def test_kinds_have_kafkas_numbers() -> None:
    numbers = [1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 16, 16]
    assert [int.from_bytes(written(record)[0][:2], "big") for record in SAMPLES] == numbers


NOW = "0000018bcfe56800"  # 1,700,000,000,000
ID = "000102030405060708090a0b0c0d0e0f"
GOLDEN = [
    (
        OffsetCommitted("g", "t", 3, 1000, 7, "note", 1_700_000_000_000, topic_id=TOPIC_ID),
        "0001 0001 67 0001 74 00000003",
        f"0004 00000000000003e8 00000007 05 6e6f7465 {NOW} 01 00 10 {ID}",
    ),
    (
        OffsetCommitted("g", "t", 3, 1000, commit_ms=1_700_000_000_000),
        "0001 0001 67 0001 74 00000003",
        f"0004 00000000000003e8 ffffffff 01 {NOW} 00",
    ),
    (
        OffsetCommitted("g", "t", 3, 1000, -1, "x", 1_700_000_000_000, expire_ms=1_700_000_000_000),
        "0001 0001 67 0001 74 00000003",
        f"0001 00000000000003e8 0001 78 {NOW} {NOW}",
    ),
    (OffsetRemoved("gé", "t", -1), "0001 0003 67c3a9 0001 74 ffffffff", None),
    (
        ClassicGroupChanged("g", "consumer", 5, "range", "m-1", 1_700_000_000_000, (CLASSIC_MEMBER, NEWCOMER)),
        "0002 0001 67",
        f"0003 0008 636f6e73756d6572 00000005 0005 72616e6765 0003 6d2d31 {NOW} 00000002"
        "0003 6d2d31 0003 692d31 0006 636c69656e74 000a 2f3132372e302e302e31 000493e0 0000afc8 00000002 0001 00000002 0002"
        "0003 6d2d32 ffff 0000 0004 2f3a3a31 0000ea60 00002710 00000000 00000000",
    ),
    (ClassicGroupChanged("g", "", 0, None, None, -1, ()), "0002 0001 67", f"0003 0000 00000000 ffff ffff {'ff' * 8} 00000000"),
    (ConsumerGroupChanged("k", 9, 0x0102), "0003 0001 6b", "0000 00000009 01 00 08 0000000000000102"),
    (ConsumerGroupChanged("k", 9), "0003 0001 6b", "0000 00000009 00"),
    (
        ConsumerMemberChanged("k", "m", "i", None, "c", "/::1", ("t",), "t.*", 300000, "uniform", SPEAKS_CLASSIC),
        "0005 0001 6b 0001 6d",
        "0000 02 69 00 02 63 05 2f3a3a31 02 02 74 04 742e2a 000493e0 08 756e69666f726d"
        "01 00 11 01 0000afc8 02 06 72616e6765 03 0001 00 00",
    ),
    (
        ConsumerMemberChanged("k", "m", None, None, "", "", (), None, -1, None),
        "0005 0001 6b 0001 6d",
        "0000 00 00 01 01 01 00 ffffffff 00 01 00 01 00",
    ),
    (TargetEpochChanged("k", 9), "0006 0001 6b", "0000 00000009 00"),
    (TargetAssignmentChanged("k", "m", PARTITIONS), "0007 0001 6b 0001 6d", f"0000 02 {ID} 03 00000000 00000002 00 00"),
    (
        CurrentAssignmentChanged("k", "m", 9, 8, MemberState.UNRELEASED_PARTITIONS, PARTITIONS, ()),
        "0008 0001 6b 0001 6d",
        f"0000 00000009 00000008 02 02 {ID} 03 00000000 00000002 00 01 00",
    ),
    (
        RegularExpressionResolved("k", "t.*", ("t", "t2"), 11, 1_700_000_000_000),
        "0010 0001 6b 0003 742e2a",
        f"0000 03 02 74 03 7432 000000000000000b {NOW} 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_the_bytes_are_those_of_kafkas_schemas(record: Record, key: str, value: str | None) -> None:
    expected = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert written(record) == expected
    assert decode(*expected) == record


# --- older versions


def text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str | bytes | None) -> bytes:
    """Shorter than 127 bytes."""
    if value is None:
        return b"\0"
    encoded = value.encode() if isinstance(value, str) else value
    return bytes([len(encoded) + 1]) + encoded


UNKNOWN_TAG = bytes([1, 9, 2]) + b"??"


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("version", range(5))
@settings(max_examples=30, deadline=None)
@given(any_of(OffsetCommitted))
def test_every_version_of_an_offset_is_read(kind: int, version: int, wrote: OffsetCommitted) -> None:
    key = struct.pack(">h", kind) + text(wrote.group) + text(wrote.topic) + struct.pack(">i", wrote.partition)
    value = struct.pack(">hq", version, wrote.offset)
    if version >= 3:
        value += struct.pack(">i", wrote.leader_epoch)
    value += (compact if version >= 4 else text)(wrote.metadata) + struct.pack(">q", wrote.commit_ms)
    if version == 1:
        value += struct.pack(">q", wrote.expire_ms)
    if version == 4:
        value += bytes([2, 0, 16]) + wrote.topic_id + UNKNOWN_TAG[1:]
    assert decode(key, value) == wrote._replace(
        leader_epoch=wrote.leader_epoch if version >= 3 else -1,
        expire_ms=wrote.expire_ms if version == 1 else -1,
        topic_id=wrote.topic_id if version == 4 else NO_UUID,
    )


@pytest.mark.parametrize("version", range(5))
@settings(max_examples=30, deadline=None)
@given(any_of(ClassicGroupChanged))
def test_every_version_of_a_classic_group_is_read(version: int, wrote: ClassicGroupChanged) -> None:
    flexible = version >= 4
    string = compact if flexible else text
    value = struct.pack(">h", version) + string(wrote.protocol_type) + struct.pack(">i", wrote.generation)
    value += string(wrote.protocol) + string(wrote.leader)
    if version >= 2:
        value += struct.pack(">q", wrote.state_changed_ms)
    count = len(wrote.members)
    value += bytes([count + 1]) if flexible else struct.pack(">i", count)
    expected = []
    for member in wrote.members:
        value += string(member.member_id)
        if version >= 3:
            value += string(member.instance_id)
        value += string(member.client_id) + string(member.client_host)
        if version >= 1:
            value += struct.pack(">i", member.rebalance_timeout_ms)
        value += struct.pack(">i", member.session_timeout_ms)
        for blob in (member.subscription, member.assignment):
            value += compact(blob) if flexible else struct.pack(">i", len(blob)) + blob
        value += UNKNOWN_TAG if flexible else b""
        expected.append(
            with_rebalance_timeout(
                dataclasses.replace(
                    member,
                    instance_id=member.instance_id if version >= 3 else None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms if version >= 1 else -1,
                )
            )
        )
    value += UNKNOWN_TAG if flexible else b""
    assert decode(b"\0\2" + text(wrote.group), value) == dataclasses.replace(
        wrote, state_changed_ms=wrote.state_changed_ms if version >= 2 else -1, members=tuple(expected)
    )


AS_KAFKA_WRITES_THEM = [
    line.split()
    for line in Path(__file__).with_name("old_values_as_kafka_writes_them.txt").read_text(encoding="utf-8").splitlines()
]
"""By Kafka 4.2.1's own MessageUtil.toVersionPrefixedBytes: message, version, bytes."""


@pytest.mark.parametrize(("message", "version", "value"), AS_KAFKA_WRITES_THEM)
def test_kafkas_records_of_every_version_are_read(message: str, version: str, value: str) -> None:
    at = int(version.removeprefix("v"))
    if message == "GroupMetadataValue":
        newcomer, member = NEWCOMER, CLASSIC_MEMBER
        if at < 3:
            member = dataclasses.replace(member, instance_id=None)
        if at < 1:
            member, newcomer = (dataclasses.replace(m, rebalance_timeout_ms=m.session_timeout_ms) for m in (member, newcomer))
        changed_ms = 1_700_000_000_000 if at >= 2 else -1
        group = ClassicGroupChanged("g", "consumer", 5, "range", "m-1", changed_ms, (member, newcomer))
        assert decode(b"\0\2\0\1g", bytes.fromhex(value)) == group
        return
    kind = b"\0\0" if message == "LegacyOffsetCommitValue" else b"\0\1"
    committed = OffsetCommitted("g", "t", 3, 1000, 7 if at >= 3 else -1, "note", 1_700_000_000_000)
    if at == 1:
        committed = committed._replace(expire_ms=1_700_000_009_999)
    if at == 4:
        committed = committed._replace(topic_id=TOPIC_ID)
    assert decode(kind + b"\0\1g\0\1t\0\0\0\3", bytes.fromhex(value)) == committed


def test_a_member_state_of_a_later_kafka_is_unknown() -> None:
    key, value = written(CurrentAssignmentChanged("k", "m", 9, 8, MemberState.UNREVOKED_PARTITIONS, (), ()))
    assert value is not None
    assert value[10] == 1
    read = decode(key, value[:10] + b"\x09" + value[11:])
    assert read == CurrentAssignmentChanged("k", "m", 9, 8, MemberState.UNKNOWN, (), ())


def test_a_member_that_does_not_speak_the_classic_protocol_says_so() -> None:
    """Kafka takes a member without this tag for a classic one with a session of 0 ms."""
    member = ConsumerMemberChanged("k", "m", None, None, "", "", (), None, -1, None)
    key, value = written(member)
    assert value is not None
    assert value.endswith(bytes([1, 0, 1, 0]))
    assert decode(key, value[:-4] + bytes([0])) == replace(member, classic=ClassicMemberMetadata(0, ()))


@pytest.mark.parametrize(
    "record",
    [
        OffsetCommitted("g", "t", 0, 1),
        ConsumerGroupChanged("k", 9),
        SAMPLES[10],
        ConsumerMemberChanged("k", "m", None, None, "", "", (), None, -1, None, ClassicMemberMetadata(0, ())),
        TargetEpochChanged("k", 9),
        TargetAssignmentChanged("k", "m", PARTITIONS),
        CurrentAssignmentChanged("k", "m", 9, 8, MemberState.STABLE, (), ()),
        RegularExpressionResolved("k", "t.*", (), 11, -1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_tags_of_a_later_kafka_are_passed_over(record: Record) -> None:
    key, value = written(record)
    assert value is not None
    assert value[-1] == 0
    assert decode(key, value[:-1] + UNKNOWN_TAG) == record
