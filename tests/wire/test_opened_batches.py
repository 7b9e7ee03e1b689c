"""Batches that are opened: which records are refused and how that is told, and what is stored instead of what came."""

import pickle
import struct
from collections.abc import Iterator

import cramjam
import lz4.frame
import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import (
    BatchError,
    BatchHeader,
    BatchView,
    ProduceLimits,
    set_max_timestamp,
    validate_produce,
)
from libs.wire.record_batches.compression import Codec, compress
from libs.wire.record_batches.first_record import WantedHeader
from libs.wire.record_batches.opened_batches import (
    RECORD_ERRORS_MAX,
    OpeningRules,
    Produced,
    RecordsRefused,
    RefusedBatch,
    open_all,
    open_one,
    open_produced,
)
from libs.wire.record_batches.records import Record, build_batch, iter_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
RULES = OpeningRules(after_max_ms=HOUR)
ANY_TIME = OpeningRules(log_append_time=True)

texts = st.text(max_size=5)
records = st.builds(
    Record,
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    st.integers(NOW - 20_000, NOW + 20_000),
    st.lists(st.tuples(texts, st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
)


def of(*given: Record, **fields: object) -> bytes:
    return bytes(build_batch(given or (Record(b"k", b"v", NOW),), **fields))  # type: ignore[arg-type]


def with_body(body: bytes, *, codec: int = 0, count: int = 1, base_timestamp: int = NOW, max_timestamp: int = NOW) -> bytes:
    batch = bytearray(of(codec=codec))
    batch[61:] = body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">qq", batch, 27, base_timestamp, max_timestamp)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def refusal(batch: bytes, rules: OpeningRules = RULES) -> BatchError:
    with pytest.raises(BatchError) as refused:
        open_produced(batch, rules, NOW)
    return refused.value


def named(error: BatchError) -> list[int]:
    assert isinstance(error, RecordsRefused)
    assert all(message for _, message in error.record_errors)
    return [index for index, _ in error.record_errors]


def at(*timestamps: int) -> bytes:
    return of(*(Record(b"k", b"v", timestamp) for timestamp in timestamps))


# --- what is kept


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=80), st.sampled_from(Codec))
def test_sound_records_stay_as_they_came(made: list[Record], codec: Codec) -> None:
    opened = open_produced(of(*made, codec=codec), RULES, NOW)
    assert opened.replacement is None
    assert opened.max_timestamp == max(record.timestamp for record in made)


@settings(deadline=None)
@given(
    st.lists(records, min_size=1, max_size=80),
    st.sampled_from(Codec),
    st.sampled_from([(0, None), (1, -1), (1, 9), (2, None), (3, 9), (3, 4), (3, 17), (4, 3), (4, -5), (4, 19)]),
    st.booleans(),
)
def test_another_codec_holds_the_same_records_of_the_same_producer(
    made: list[Record], came: Codec, compression: tuple[int, int | None], transactional: bool
) -> None:
    batch = of(*made, codec=came, producer_id=7, producer_epoch=3, base_sequence=2**31 - 1, transactional=transactional)
    codec, level = compression
    replacement = open_produced(batch, OpeningRules(codec=codec, level=level), NOW).replacement
    if came == codec:
        assert replacement is None
        return
    assert replacement is not None
    assert list(iter_records(replacement)) == list(iter_records(batch))
    before = BatchHeader.at(memoryview(batch))
    after = validate_produce(memoryview(replacement), ProduceLimits(), NOW)
    assert after.codec == codec
    kept = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert after._replace(**kept) == before._replace(**kept)
    assert after.attributes & ~7 == before.attributes & ~7


def test_levels_do_something() -> None:
    data = b"".join(b"key%d some text that repeats %d;" % (i % 97, i * 7919 % 1000) for i in range(3000))
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.LZ4, 3, 12), (Codec.ZSTD, -50, 19)):
        assert len(compress(codec, data, high)) < 0.95 * len(compress(codec, data, low)), codec


def test_other_libraries_read_every_level() -> None:
    data = bytes(range(256)) * 300
    for level in (-1, 1, 9):
        assert bytes(cramjam.gzip.decompress(compress(Codec.GZIP, data, level))) == data
    for level in (1, 3, 9, 12, 17):
        assert lz4.frame.decompress(compress(Codec.LZ4, data, level)) == data
    for level in (-131072, -1, 3, 22):
        assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, data, level), max_output_size=len(data)) == data


def test_offset_deltas_that_are_out_of_order_are_numbered_anew() -> None:
    three = [b"\x0e\x00\x00" + bytes([2 * delta]) + b"\x02k\x01\x00" for delta in (5, 5, 0)]
    for codec in Codec:
        opened = open_produced(with_body(compress(codec, b"".join(three)), codec=codec, count=3), RULES, NOW)
        assert opened.replacement is not None
        records = list(iter_records(opened.replacement))
        assert [(record.offset, record.key) for record in records] == [(0, b"k"), (1, b"k"), (2, b"k")]
        assert BatchView(memoryview(opened.replacement)).crc_matches
        assert BatchHeader.at(memoryview(opened.replacement)).codec == codec


def test_a_newest_time_that_is_not_true_is_made_true() -> None:
    batch = with_body(b"\x0e\x00\x14\x00\x02k\x01\x00", max_timestamp=NOW + 500)
    opened = open_produced(batch, RULES, NOW)
    assert (opened.replacement, opened.max_timestamp) == (None, NOW + 10)
    corrected = bytearray(batch)
    set_max_timestamp(memoryview(corrected), opened.max_timestamp)
    assert BatchView(memoryview(corrected)).crc_matches
    assert BatchHeader.at(memoryview(corrected)).max_timestamp == NOW + 10


def test_a_rebuilt_batch_says_the_true_newest_time_too() -> None:
    batch = with_body(b"\x0e\x00\x14\x00\x02k\x01\x00", max_timestamp=NOW + 500)
    opened = open_produced(batch, OpeningRules(codec=4), NOW)
    assert opened.replacement is not None
    assert BatchHeader.at(memoryview(opened.replacement)).max_timestamp == NOW + 10


# --- what is refused


def test_row_25_more_headers_than_the_record_has_room_for() -> None:
    assert refusal(with_body(b"\x0e\x00\x00\x00\x02k\x01\x7e")).code == ErrorCode.INVALID_RECORD
    assert refusal(with_body(b"\x0e\x00\x00\x00\x02k\x01\x01")).code == ErrorCode.INVALID_RECORD  # a count of -1


def test_row_26_records_without_a_key_are_each_named_on_a_compacted_topic() -> None:
    mixed = of(Record(None, b"a", NOW), Record(b"k", b"b", NOW), Record(None, b"c", NOW))
    error = refusal(mixed, OpeningRules(compacted=True))
    assert (error.code, named(error)) == (ErrorCode.INVALID_RECORD, [0, 2])
    assert open_produced(mixed, OpeningRules(), NOW).replacement is None
    assert open_produced(of(Record(b"", b"a", NOW)), OpeningRules(compacted=True), NOW).replacement is None


def test_row_27_records_outside_the_window_are_each_named() -> None:
    window = OpeningRules(before_max_ms=HOUR, after_max_ms=HOUR)
    error = refusal(at(NOW, NOW + HOUR + 1, NOW - HOUR - 1, NOW + HOUR, NOW - HOUR), window)
    assert (error.code, named(error)) == (ErrorCode.INVALID_TIMESTAMP, [1, 2])


def test_a_record_without_a_time_is_in_every_window() -> None:
    window = OpeningRules(before_max_ms=HOUR, after_max_ms=HOUR)
    assert open_produced(at(-1, NOW, -1), window, NOW).max_timestamp == NOW
    assert open_produced(at(-1, -1), window, NOW).max_timestamp == -1
    assert named(refusal(at(-1, -2), window)) == [1]


def test_a_topic_that_stamps_records_does_not_look_at_their_times() -> None:
    window = OpeningRules(log_append_time=True, before_max_ms=1, after_max_ms=1)
    assert open_produced(at(5, NOW * 2), window, NOW).replacement is None


def test_a_bad_time_counts_more_than_a_missing_key() -> None:
    batch = of(Record(None, b"a", NOW), Record(b"k", b"b", NOW + 2 * HOUR), Record(None, b"c", NOW + 2 * HOUR))
    error = refusal(batch, OpeningRules(compacted=True, after_max_ms=HOUR))
    assert (error.code, named(error)) == (ErrorCode.INVALID_TIMESTAMP, [0, 1, 2])


def test_times_that_leave_64_bits_come_back_at_the_other_end() -> None:
    first, second = b"\x0e\x00\x00\x00\x02k\x01\x00", b"\x0e\x00\x02\x02\x02k\x01\x00"
    batch = with_body(first + second, count=2, base_timestamp=2**63 - 1)
    assert named(refusal(batch, OpeningRules(after_max_ms=HOUR))) == [0, 1]
    assert named(refusal(batch, OpeningRules(before_max_ms=HOUR))) == [1]


def test_an_answer_names_only_so_many_records() -> None:
    many = of(*[Record(None, b"", NOW)] * (RECORD_ERRORS_MAX + 5))
    error = refusal(many, OpeningRules(compacted=True))
    assert named(error) == list(range(RECORD_ERRORS_MAX))
    assert f"{RECORD_ERRORS_MAX + 2} more" in error.message


def bombs() -> Iterator[tuple[str, bytes]]:
    zeros = bytes(256 * 1024 * 1024)
    for codec in list(Codec)[1:]:
        yield codec.name, with_body(compress(codec, zeros), codec=codec)


def test_row_29_a_decompression_bomb_of_any_codec_stops_at_the_cap() -> None:
    for name, bomb in bombs():
        assert refusal(bomb).code == ErrorCode.MESSAGE_TOO_LARGE, name


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_row_30_what_cannot_be_decompressed_is_corrupt(codec: Codec) -> None:
    assert refusal(with_body(b"rubbish", codec=codec)).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"\x0e\x00\x00\x00\x02k\x01\x00", 2),  # one record, two were announced
        (b"\x0e\x00\x00\x00\x02k\x01\x00\x00", 1),  # bytes after the last
        (b"\x0d", 1),  # a length of -7
        (b"\x7e\x00\x00", 1),  # longer than what is there
        (b"\x0e\x00\x00\x00\x7ek\x01\x00", 1),  # a key longer than the record
        (b"\x0e\x00\x00\x00\x03k\x01\x00", 1),  # a key of -2 bytes
        (b"\x0e\x00\x00\x00\x02k\x03\x00", 1),  # a value of -2 bytes
        (b"\x10\x00\x00\x00\x02k\x01\x00\x00", 1),  # longer than its fields
        (b"\x12\x00\x00\x00\x02k\x01\x02\x01\x00", 1),  # a header without a name
        (b"\x16\x00\x00\x00\x02k\x01\x02\x02h\x03\x00", 1),  # a header of -2 bytes
        (b"\xff" * 40, 1),
        (b"\x18\x00\x00\x80\x80\x80\x80\x80\x00\x01\x01\x00", 1),  # a delta of six bytes
        (b"\x16\x00\x00\xff\xff\xff\xff\x7f\x01\x01\x00", 1),  # a delta of 35 bits
        (b"\x20\x00" + b"\xff" * 10 + b"\x01\x00\x01\x01\x00", 1),  # a time of 71 bits
    ],
)
def test_bytes_that_are_no_record_are_invalid(body: bytes, count: int) -> None:
    for codec in Codec:
        batch = with_body(compress(codec, body), codec=codec, count=count)
        assert refusal(batch).code == ErrorCode.INVALID_RECORD


@settings(max_examples=1000, deadline=None)
@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_whatever_is_accepted_can_be_read(made: list[Record], data: st.DataObject) -> None:
    batch = bytearray(of(*made))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        opened = open_produced(batch, ANY_TIME, NOW)
    except BatchError:
        return
    assert len(list(iter_records(opened.replacement or batch))) == len(made)
    assert [r.offset for r in iter_records(opened.replacement or batch)] == list(range(len(made)))


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=60), st.integers(1, 5))
def test_whatever_can_be_read_is_accepted(body: bytes, count: int) -> None:
    batch = with_body(body, count=count)
    try:
        list(iter_records(batch))
    except BatchError:
        assert refusal(batch, ANY_TIME).code == ErrorCode.INVALID_RECORD
        return
    outcome = open_one(Produced(batch, ANY_TIME, NOW))
    # The exception is a number with more bytes than Java reads.
    assert not isinstance(outcome, RefusedBatch) or "number" in outcome.message


def test_a_rebuilt_batch_must_fit_too() -> None:
    small = of(Record(b"k", bytes(10_000), NOW), codec=4)
    assert refusal(small, OpeningRules(codec=0, max_message_bytes=5000)).code == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(small, OpeningRules(codec=0, segment_bytes=5000)).code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert open_produced(small, OpeningRules(max_message_bytes=5000, segment_bytes=5000), NOW).replacement is None


# --- the job


def test_a_job_opens_each_batch_by_its_own_rules_and_what_it_answers_can_be_sent() -> None:
    good, keyless, named = of(codec=1), of(Record(None, b"", NOW)), of(Record(b"k", b"", NOW, [("color", b"blue")]), codec=1)
    outcomes = pickle.loads(
        pickle.dumps(
            open_all(
                [
                    Produced(good, OpeningRules(), NOW),
                    Produced(keyless, OpeningRules(compacted=True), NOW),
                    Produced(with_body(b"\xff"), OpeningRules(), NOW),
                    Produced(good, OpeningRules(codec=4), NOW),
                    Produced(named, OpeningRules(), NOW, WantedHeader(b"color", 4)),
                    Produced(named, OpeningRules(), NOW, WantedHeader(b"color", 3)),
                    Produced(named, OpeningRules(), NOW, WantedHeader(b"size", 4)),
                ]
            )
        )
    )
    assert outcomes[0] == (None, NOW, None)
    assert isinstance(outcomes[1], RefusedBatch)
    assert (outcomes[1].code, outcomes[1].record_errors[0][0]) == (ErrorCode.INVALID_RECORD, 0)
    assert (outcomes[2].code, outcomes[2].record_errors) == (ErrorCode.INVALID_RECORD, ())
    assert outcomes[3].replacement[22] & 7 == Codec.ZSTD
    assert [outcome.header for outcome in outcomes[4:]] == [b"blue", b"", None]
