"""Record batches: what a produced batch may look like, placing it, and reading what real clients encode."""

import struct
import warnings
from collections.abc import Iterator

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.compression import Codec, DecompressionFailed, DecompressionTooLarge, compress, decompress
from libs.wire.record_batches.records import (
    BatchError,
    BatchHeader,
    BatchView,
    ProduceLimits,
    Record,
    build_batch,
    iter_batches,
    iter_records,
    patch,
    set_log_append_time,
    validate_produce,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka.record.default_records import DefaultRecordBatch as KafkaBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

NOW = 1_700_000_000_000
LIMITS = ProduceLimits()
RECORDS = [
    Record(b"k", b"v", NOW),
    Record(None, b"w" * 300, NOW + 5, (("h", b"1"), ("empty", None))),
    Record(b"", None, NOW - 3),
]


def batch(**fields: object) -> bytearray:
    return build_batch(RECORDS, **fields)  # type: ignore[arg-type]


def changed(position: int, form: str, value: int, *, fix_crc: bool = True, **fields: object) -> bytearray:
    data = batch(**fields)
    struct.pack_into(form, data, position, value)
    if fix_crc:
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def refusal(data: bytes | bytearray, limits: ProduceLimits = LIMITS, now_ms: int = NOW) -> ErrorCode:
    with pytest.raises(BatchError) as refused:
        validate_produce(memoryview(data), limits, now_ms)
    return refused.value.code


# --- what is refused, and how (rows of the table of bad inputs)


def test_a_sound_batch_is_accepted() -> None:
    header = validate_produce(memoryview(batch()), LIMITS, NOW)
    assert (header.record_count, header.max_timestamp, header.producer_id, header.codec) == (3, NOW + 5, -1, 0)


def test_row_19_a_batch_that_does_not_match_its_crc_is_corrupt() -> None:
    data = batch()
    for position in (17, 21, 60, 61, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert refusal(damaged) == ErrorCode.CORRUPT_MESSAGE


def test_row_20_a_batch_beyond_the_topics_or_the_segments_size_is_too_large() -> None:
    size = len(batch())
    assert refusal(batch(), ProduceLimits(max_message_bytes=size - 1)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(batch(), ProduceLimits(segment_bytes=size - 1)) == ErrorCode.RECORD_LIST_TOO_LARGE
    validate_produce(memoryview(batch()), ProduceLimits(max_message_bytes=size, segment_bytes=size), NOW)


@pytest.mark.parametrize("magic", [0, 1])
def test_row_21_older_versions_are_invalid(magic: int) -> None:
    assert refusal(changed(16, ">b", magic)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, -1])
def test_row_21_versions_that_never_were_are_corrupt(magic: int) -> None:
    assert refusal(changed(16, ">b", magic)) == ErrorCode.CORRUPT_MESSAGE


def test_row_21_no_batch_or_more_than_one_is_invalid() -> None:
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(batch()[:16]) == ErrorCode.INVALID_RECORD
    assert refusal(batch()[:-1]) == ErrorCode.INVALID_RECORD
    assert refusal(batch() + b"\x00") == ErrorCode.INVALID_RECORD
    assert refusal(batch() + batch()) == ErrorCode.INVALID_RECORD


def test_a_length_that_no_batch_can_have_is_corrupt() -> None:
    for length in (-1, 0, 13):
        assert refusal(changed(8, ">i", length)) == ErrorCode.CORRUPT_MESSAGE
    short = batch()[:50]
    struct.pack_into(">i", short, 8, 38)
    assert refusal(short) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("count", [0, -1, 2, 4, 2**31 - 1])
def test_row_22_counts_and_offsets_must_agree(count: int) -> None:
    assert refusal(changed(57, ">i", count)) == ErrorCode.INVALID_RECORD


def test_row_22_an_empty_range_is_invalid_even_if_it_agrees() -> None:
    data = changed(57, ">i", 0)
    struct.pack_into(">i", data, 23, -1)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    assert refusal(data) == ErrorCode.INVALID_RECORD


def test_row_23_clients_may_not_write_control_batches() -> None:
    assert refusal(batch(control=True)) == ErrorCode.INVALID_RECORD


def test_row_24_a_producer_id_needs_a_sequence() -> None:
    assert refusal(batch(producer_id=5, producer_epoch=0, base_sequence=-1)) == ErrorCode.INVALID_RECORD


def test_a_batch_that_does_not_start_at_offset_zero_is_invalid() -> None:
    assert refusal(batch(base_offset=1)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_invalid(codec: int) -> None:
    assert refusal(changed(21, ">h", codec)) == ErrorCode.INVALID_RECORD


def test_row_27_timestamps_outside_of_what_the_topic_allows() -> None:
    newest = NOW + 5
    limits = ProduceLimits(before_max_ms=1000, after_max_ms=500)
    validate_produce(memoryview(batch()), limits, newest + 1000)
    assert refusal(batch(), limits, newest + 1001) == ErrorCode.INVALID_TIMESTAMP
    validate_produce(memoryview(batch()), limits, newest - 500)
    assert refusal(batch(), limits, newest - 501) == ErrorCode.INVALID_TIMESTAMP


def test_batches_without_timestamps_pass_any_bound() -> None:
    data = build_batch([Record(b"k", b"v", -1)])
    validate_produce(memoryview(data), ProduceLimits(before_max_ms=0, after_max_ms=0), NOW)


def test_a_batch_may_not_claim_log_append_time_on_its_own() -> None:
    data = batch(log_append_time_ms=NOW)
    assert refusal(data) == ErrorCode.INVALID_TIMESTAMP
    validate_produce(memoryview(data), ProduceLimits(log_append_time=True), NOW)


@settings(max_examples=300)
@given(data=st.binary(max_size=200))
def test_rubbish_is_always_refused_with_a_code(data: bytes) -> None:
    assert refusal(data) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@settings(max_examples=300)
@given(position=st.integers(0, 60), value=st.integers(0, 255), fix_crc=st.booleans())
def test_a_changed_header_byte_is_refused_or_harmless(position: int, value: int, fix_crc: bool) -> None:
    data = changed(position, ">B", value, fix_crc=fix_crc)
    try:
        header = validate_produce(memoryview(data), LIMITS, NOW)
    except BatchError:
        return
    assert header.base_offset == 0
    assert header.size == len(data)
    assert header.record_count == header.last_offset_delta + 1 > 0


# --- placing


def test_patching_places_a_batch_without_touching_its_crc() -> None:
    data = batch()
    patch(memoryview(data), 2**40, 17)
    placed = BatchView(memoryview(data))
    assert (placed.header.base_offset, placed.header.leader_epoch, placed.header.last_offset) == (2**40, 17, 2**40 + 2)
    assert placed.crc_matches
    assert placed.header.size == len(data)


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_is_the_time_of_every_record(codec: Codec) -> None:
    data = batch(codec=codec)
    set_log_append_time(memoryview(data), 42)
    assert BatchView(memoryview(data)).crc_matches
    assert [record.timestamp for record in iter_records(data)] == [42, 42, 42]
    assert all(record.timestamp == 42 for record in KafkaBatch(bytes(data)))


def test_batches_are_walked_by_their_headers_and_a_partial_one_is_left_out() -> None:
    data = batch() + batch(codec=4) + batch()[:-1]
    assert [b.header.codec for b in iter_batches(data)] == [0, 4]
    assert list(iter_batches(b"")) == []


def test_the_last_sequence_wraps() -> None:
    header = BatchHeader.at(batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


# --- real clients as oracle


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("builder", [KafkaBuilder, AioBuilder])
def test_batches_of_real_clients_are_accepted_and_read(builder: type, codec: Codec) -> None:
    made = builder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        batch_size=1 << 20,
    )
    sent = [(b"key%d" % i, b"value" * 50, NOW + i, [("h", b"x"), ("null", None)]) for i in range(100)]
    for offset, (key, value, timestamp, headers) in enumerate(sent):
        made.append(offset, timestamp=timestamp, key=key, value=value, headers=headers)
    data = bytearray(made.build())
    header = validate_produce(memoryview(data), LIMITS, NOW)
    assert (header.codec, header.record_count, header.producer_id, header.base_sequence) == (codec, 100, 9, 5)
    patch(memoryview(data), 1000, 3)
    read = [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in iter_records(data)]
    assert read == [(1000 + i, *record) for i, record in enumerate(sent)]


@pytest.mark.parametrize("codec", list(Codec))
def test_real_clients_read_the_batches_that_we_build(codec: Codec) -> None:
    data = batch(codec=codec, base_offset=77)
    read = KafkaBatch(bytes(data))
    assert read.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in read] == [
        (77 + i, r.timestamp, r.key, r.value, list(r.headers)) for i, r in enumerate(RECORDS)
    ]


@given(
    records=st.lists(
        st.builds(
            Record,
            st.none() | st.binary(max_size=30),
            st.none() | st.binary(max_size=300),
            st.integers(-1, 2**60),
            st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=20,
    ),
    codec=st.sampled_from(list(Codec)),
)
def test_records_come_back_as_they_went_in(records: list[Record], codec: Codec) -> None:
    data = build_batch(records, base_offset=5, codec=codec)
    assert list(iter_records(data)) == [record._replace(offset=5 + i) for i, record in enumerate(records)]
    assert BatchView(memoryview(data)).crc_matches


# --- what is inside may be hostile


def with_body(body: bytes, codec: int = 0, count: int = 1) -> bytearray:
    data = build_batch([])[:61] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    struct.pack_into(">i", data, 57, count)
    return data


@pytest.mark.parametrize(
    "body",
    [
        b"",  # fewer records than claimed
        b"\x01",  # negative length
        b"\x80" * 11,  # a number without end
        b"\x0e\x00\x00\x00\x01\x01\x7e\x00",  # row 25: more headers than bytes
        b"\x0c\x00\x00\x00\x7e\x01\x00",  # key longer than the record
        b"\x0e\x00\x00\x00\x03\x01\x00\x00",  # key length -2
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # a byte too many in the record
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # a byte too many after it
    ],
)
def test_records_that_make_no_sense_are_invalid(body: bytes) -> None:
    with pytest.raises(BatchError) as refused:
        list(iter_records(with_body(body)))
    assert refused.value.code == ErrorCode.INVALID_RECORD


def bombs() -> Iterator[tuple[Codec, bytes]]:
    zeros = bytes(64 * 1024 * 1024)
    for codec in list(Codec)[1:]:
        yield codec, compress(codec, zeros)
    yield Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeros))


def test_row_29_a_decompression_bomb_stops_at_the_bound() -> None:
    for codec, data in bombs():
        with pytest.raises(DecompressionTooLarge):
            decompress(codec, data, 1 << 20)
        with pytest.raises(BatchError) as refused:
            list(iter_records(with_body(data, codec), max_bytes=1 << 20))
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_row_30_corrupt_compressed_bytes_are_corrupt(codec: Codec) -> None:
    good = compress(codec, b"".join(b"%d" % i for i in range(5000)))
    for bad in (good[: len(good) // 2], b"\x00" + good, b"rubbish" * 10, good[:20] + b"\xff\xff\xff\xff" + good[24:]):
        with pytest.raises(BatchError) as refused:
            list(iter_records(with_body(bad, codec)))
        assert refused.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("length", [0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF, 0x7FFF_FF00])
@pytest.mark.parametrize("blocks_before", [0, 1])
def test_cve_2023_34455_a_snappy_block_of_an_impossible_length_is_corrupt(length: int, blocks_before: int) -> None:
    good = compress(Codec.SNAPPY, b"a block")
    header = struct.Struct(">8sii").size
    with pytest.raises(DecompressionFailed, match="truncated block"):
        decompress(Codec.SNAPPY, good[:header] + blocks_before * good[header:] + struct.pack(">I", length) + b"data", 1 << 20)


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff" * 10])
def test_cve_2023_34455_raw_snappy_that_claims_gigabytes_is_refused(claimed: bytes) -> None:
    with pytest.raises((DecompressionFailed, DecompressionTooLarge)):
        decompress(Codec.SNAPPY, claimed + b"data", 1 << 20)


@settings(max_examples=300)
@given(codec=st.sampled_from(list(Codec)), data=st.binary(max_size=100))
def test_nothing_that_is_decompressed_escapes_its_two_errors(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, 1000)) <= 1000
    except (DecompressionFailed, DecompressionTooLarge):
        pass


@given(data=st.binary(max_size=5000), codec=st.sampled_from(list(Codec)))
def test_exactly_the_bound_fits(data: bytes, codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data
    if data:
        with pytest.raises(DecompressionTooLarge):
            decompress(codec, compress(codec, data), len(data) - 1)


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    """Kafka's own reader refuses frames whose independence bit is not set."""
    assert compress(Codec.LZ4, b"x" * 200_000)[4] & 0x20


def test_gzip_may_have_several_members() -> None:
    data = compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, data, 6) == b"onetwo"


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_unknown_codecs_fail(codec: int) -> None:
    with pytest.raises(DecompressionFailed):
        decompress(codec, b"", 10)
