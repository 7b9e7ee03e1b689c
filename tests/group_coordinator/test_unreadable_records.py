"""Records of `__consumer_offsets` that cannot be read, and values that must not be written."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.group_coordinator.core.model.records import (
    ClassicGroupChanged,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerMemberChanged,
    OffsetCommitted,
    OffsetRemoved,
    Record,
)
from services.group_coordinator.core.record_formats.record_codec import decode, encode
from tests.group_coordinator.sample_records import SAMPLES, written


@pytest.mark.parametrize("number", [9, 10, 15, 17, 23, 24, -1, 0x7FFF])
def test_kinds_that_are_not_ours_are_passed_over(number: int) -> None:
    assert decode(struct.pack(">h", number) + b"whatever", b"\0\0") is None
    assert decode(struct.pack(">h", number), None) is None


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_every_cut_and_every_excess_is_refused(record: Record) -> None:
    key, value = written(record)
    for damaged in [*(key[:length] for length in range(len(key))), key + b"\0"]:
        with pytest.raises(ValueError):
            decode(damaged, value)
    if value is not None:
        for damaged in [*(value[:length] for length in range(len(value))), value + b"\0"]:
            with pytest.raises(ValueError):
                decode(key, damaged)


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
@pytest.mark.parametrize("version", [-1, 5, 0x7FFF])
def test_versions_that_kafka_does_not_have_are_refused(record: Record, version: int) -> None:
    key, value = written(record)
    if value is not None:
        with pytest.raises(ValueError, match="version"):
            decode(key, struct.pack(">h", version) + value[2:])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 16]), st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_whatever_bytes_stand_there_only_value_errors_come_out(number: int, key: bytes, value: bytes | None) -> None:
    try:
        decode(struct.pack(">h", number) + key, value)
    except ValueError:
        pass


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 5), st.binary(max_size=80))
def test_whatever_stands_behind_a_version_only_value_errors_come_out(record: Record, version: int, rest: bytes) -> None:
    try:
        decode(written(record)[0], struct.pack(">h", version) + rest)
    except ValueError:
        pass


@pytest.mark.parametrize(
    "record",
    [
        OffsetRemoved("g" * 0x8000, "t", 0),
        OffsetRemoved("g", "t", 1 << 31),
        OffsetCommitted("g", "t", 0, 1 << 63),
        ClassicGroupChanged("g", "", 0, "p" * 0x8000, None, -1, ()),
        OffsetCommitted("g", "t", 0, 1, metadata="é" * 0x4000),
        ConsumerMemberChanged("k", "m" * 0x8000, None, None, "", "", (), None, -1, None),
        ConsumerMemberChanged("k", "m", None, None, "", "", ("t" * 0x8000,), None, -1, None),
        ConsumerMemberChanged(
            "k", "m", None, None, "", "", (), None, -1, None, ClassicMemberMetadata(0, (ClassicProtocol("p" * 0x8000, b""),))
        ),
    ],
    ids=["group", "partition", "offset", "protocol", "metadata", "member", "topic", "classic"],
)
def test_a_record_that_does_not_fit_the_format_is_refused(record: Record) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode(record)


def test_the_longest_strings_are_read_again() -> None:
    longest = "x" * 0x7FFF
    for record in (
        OffsetCommitted(longest, longest, 0, 1, metadata=longest),
        OffsetRemoved(longest, "é" * 0x3FFF, 1),
        ConsumerMemberChanged(longest, longest, longest, longest, longest, longest, (longest,), longest, -1, longest),
    ):
        assert decode(*written(record)) == record


def test_an_event_that_is_no_record_of_the_log_is_not_written() -> None:
    assert encode("a fact that nobody keeps") is None
