"""A walk to a timestamp finds what a plain parse finds, of any codec, and does no more work than it must."""

import random
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from crc32c import crc32c

from libs.wire.record_batches.batch_layout import CRC_START, HEADER, HEADER_SIZE, Codec
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.compression import DECOMPRESSED_BYTES_MAX, compress
from libs.wire.record_batches.records import Record, build_batch, iter_records
from libs.wire.record_batches.timestamp_walk import TimestampWalk, WalkResult, walk_batch
from tests.wire.time_bounds import START, out_of_bounds

CODECS = tuple(Codec)
MANY = 1 << 40


def walked(
    batch: bytes | bytearray, timestamp: int, start_offset: int = 0, *, bytes_max: int = MANY, records_max: int = MANY
) -> WalkResult:
    return walk_batch(TimestampWalk(bytes(batch), timestamp, start_offset, bytes_max, records_max))


def plainly(batch: bytes | bytearray, timestamp: int, start_offset: int) -> tuple[int, int]:
    """The (offset, timestamp) by a parse of every record; (-1, -1) if none qualifies. Raises BatchError."""
    for record in iter_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.offset, record.timestamp
    return -1, -1


def records_of(dice: random.Random) -> Sequence[Record]:
    sizes = (0, 1, 60, 127, 128, 300, 20_000, 70_000)
    return [
        Record(
            dice.choice((None, b"", b"key")),
            dice.choice((None, dice.randbytes(dice.choice(sizes)), bytes(dice.choice(sizes)))),
            START + dice.choice((0, 1, 63, 64, 9000, -5, 10**6)) * dice.randrange(4),
            (("name", b"content"), ("empty", None)) * dice.randrange(3),
        )
        for _ in range(dice.choice((1, 2, 5, 40)))
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_it_finds_what_a_plain_parse_finds(codec: Codec) -> None:
    dice = random.Random(codec)
    for _ in range(150):
        batch = build_batch(records_of(dice), base_offset=1000, codec=codec, leader_epoch=7)
        for _ in range(4):
            timestamp = START + dice.choice((-10, 0, 1, 63, 64, 128, 9000, 10**6, 10**7))
            start_offset = 1000 + dice.choice((-1000, 0, 1, 30))
            result = walked(batch, timestamp, start_offset)
            assert (result.offset, result.timestamp) == plainly(batch, timestamp, start_offset)
            assert result.is_exact
            assert result.leader_epoch == 7


@pytest.mark.parametrize("codec", CODECS)
def test_whatever_the_bytes_are_no_record_that_qualifies_is_skipped(codec: Codec) -> None:
    """A batch that a plain parse refuses is answered by its first offset, or by a record that stands before the damage."""
    dice = random.Random(codec + 100)
    exact = 0
    for _ in range(400):
        records = records_of(dice)
        batch = build_batch(records, base_offset=1000, codec=codec)
        for _ in range(dice.randrange(1, 4)):
            batch[dice.randrange(HEADER_SIZE, len(batch))] = dice.randrange(256)
        timestamp = START + dice.choice((0, 64, 9000))
        result = walked(batch, timestamp)
        try:
            expected = plainly(batch, timestamp, 0)
        except BatchError:
            expected = (1000, -1)
        exact += result.is_exact
        if not result.is_exact:
            assert (result.offset, result.timestamp) == (1000, BatchHeader.at(batch).max_timestamp)
        elif expected[1] >= 0:
            assert 1000 <= result.offset <= 1000 + len(records)
    assert 0 < exact < 400


@pytest.mark.parametrize("codec", CODECS)
def test_content_that_ends_early_or_late_is_answered_by_the_first_offset(codec: Codec) -> None:
    whole = build_batch([Record(None, b"value" * 30, START + number) for number in range(50)], base_offset=10)
    body = bytes(whole[HEADER_SIZE:])
    for changed in (body[:-1], body + b"\0", body[:200]):
        blob = compress(codec, changed)
        header = BatchHeader.at(whole)._replace(attributes=codec, batch_length=HEADER_SIZE + len(blob) - 12)
        batch = bytearray(HEADER_SIZE) + blob
        HEADER.pack_into(batch, 0, *header)
        HEADER.pack_into(batch, 0, *header._replace(crc=crc32c(memoryview(batch)[CRC_START:])))
        assert walked(batch, START + 10**6) == WalkResult(10, START + 49, -1, False, walked(batch, START + 10**6).bytes, 50)
        assert walked(batch, START + 1)[:2] == (11, START + 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_append_time_is_that_of_the_header(codec: Codec) -> None:
    batch = build_batch([Record(None, b"x")] * 3, base_offset=5, codec=codec, log_append_time_ms=START)
    assert walked(batch, START - 1, start_offset=6)[:4] == (6, START, -1, True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("base_timestamp", "delta"), [(START, (1 << 63) - 1), (1 << 62, 1 << 62), (-(1 << 63), -1)])
def test_a_time_outside_of_int64_is_that_of_no_record(codec: Codec, base_timestamp: int, delta: int) -> None:
    batch = out_of_bounds(base_timestamp, delta, codec)
    assert walked(batch, base_timestamp)[:4] == (10, base_timestamp, -1, True)
    assert walked(batch, base_timestamp + 1) == WalkResult(10, START, -1, False, walked(batch, base_timestamp + 1).bytes, 3)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_it_decompresses_no_more_than_it_needs(codec: Codec) -> None:
    """The first record qualifies, and 32 MiB stand behind its head."""
    batch = build_batch([Record(b"key", bytes(32 << 20), START), Record(b"key", b"", START + 1)], codec=codec)
    peak = lowest_peak(lambda: walked(batch, START)[:4] == (0, START, -1, True))
    assert peak < 2 << 20, "a prefix, and the buffers of its codec"
    assert walked(batch, START).bytes <= 1 << 20
    assert walked(batch, START + 1)[:4] == (1, START + 1, -1, True)


def test_keys_and_values_are_not_copied() -> None:
    batch = bytes(build_batch([Record(bytes(1 << 20), bytes(1 << 20), START + number) for number in range(8)]))
    peak = lowest_peak(lambda: walk_batch(TimestampWalk(batch, START + 7, 0, MANY, MANY))[:2] == (7, START + 7))
    assert peak < 512 << 10


def lowest_peak(walk: Callable[[], bool]) -> int:
    """The bytes that a walk takes at most. Other threads of the process allocate, too, but not during each of several walks."""
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(5):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            assert walk()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return min(peaks)


@pytest.mark.parametrize("codec", CODECS)
def test_beyond_its_limits_the_answer_is_the_first_offset(codec: Codec) -> None:
    batch = build_batch([Record(None, bytes(100), START + number) for number in range(3000)], base_offset=10, codec=codec)
    assert walked(batch, START + 2500)[:4] == (2510, START + 2500, -1, True)
    for limits in ({"bytes_max": 100_000}, {"records_max": 2000}):
        cut = walked(batch, START + 2500, **limits)
        assert cut[:4] == (10, START + 2999, -1, False)
        assert cut.records <= 3000
        near = walked(batch, START + 5, **limits)
        if near.is_exact:
            assert near[:2] == (15, START + 5)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_no_batch_is_decompressed_beyond_the_bound_of_all_batches(codec: Codec) -> None:
    batch = build_batch([Record(None, bytes(DECOMPRESSED_BYTES_MAX), START), Record(None, b"", START + 1)], codec=codec)
    result = walked(batch, START + 1)
    assert result[:4] == (0, START + 1, -1, False)
    assert result.bytes <= DECOMPRESSED_BYTES_MAX + (1 << 20)
