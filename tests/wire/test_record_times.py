"""Times are found in a batch, or in its beginning, as by whoever opens it."""

import random

import pytest

from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.record_times import first_at
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.wire.time_bounds import START, out_of_bounds


def made(dice: random.Random, records: int) -> bytearray:
    return build_batch(
        [
            Record(bytes(dice.randrange(3)), bytes(dice.randrange(200)), START + dice.randrange(-(10**6), 10**6), (("h", b"x"),))
            for _ in range(records)
        ],
        base_offset=1000,
    )


def test_it_finds_the_first_that_is_late_enough() -> None:
    dice = random.Random(1)
    for _ in range(300):
        batch = made(dice, dice.randrange(1, 12))
        header, records = BatchHeader.at(batch), list(iter_records(batch))
        for wanted in (START - 10**7, START, START + 10**7, records[-1].timestamp):
            start = 1000 + dice.randrange(4)
            expected = [
                (record.offset, record.timestamp) for record in records if record.timestamp >= wanted and record.offset >= start
            ]
            result = first_at(batch, header, wanted, start, 100)
            assert result == (expected[0] if expected else None)
            assert first_at(batch + b"what follows it", header, wanted, start, 100) == result
            part = first_at(batch[: dice.randrange(61, len(batch))], header, wanted, start, 100)
            assert part in (result, None)


def test_the_search_ends_at_its_bounds() -> None:
    batch = build_batch([Record(None, b"", START + number) for number in range(20)])
    header = BatchHeader.at(batch)
    assert first_at(batch, header, START + 9, 0, 10) == (9, START + 9)
    assert first_at(batch, header, START + 10, 0, 10) is None


def test_bytes_that_are_no_record_are_not_found() -> None:
    dice = random.Random(2)
    for _ in range(2000):
        batch = made(dice, 3)
        header = BatchHeader.at(batch)
        for _ in range(5):
            batch[dice.randrange(61, len(batch))] = dice.randrange(256)
        result = first_at(batch, header, START, 0, 100)
        assert result is None or result[1] >= START


@pytest.mark.parametrize(("base_timestamp", "delta"), [(START, (1 << 63) - 1), (1 << 62, 1 << 62), (-(1 << 63), -1)])
def test_a_time_outside_of_int64_is_that_of_no_record(base_timestamp: int, delta: int) -> None:
    batch = out_of_bounds(base_timestamp, delta)
    assert first_at(batch, BatchHeader.at(batch), base_timestamp, 0, 100) == (10, base_timestamp)
    assert first_at(batch, BatchHeader.at(batch), base_timestamp, 11, 100) is None


def test_an_offset_outside_of_its_batch_is_that_of_no_record() -> None:
    batch = build_batch([Record(None, b"", START), Record(None, b"", START + 1)], base_offset=10)
    header = BatchHeader.at(batch)
    assert first_at(batch, header, START + 1, 0, 100) == (11, START + 1)
    assert first_at(batch, header._replace(last_offset_delta=0), START + 1, 0, 100) is None
