"""Reads: lookups equal a linear scan, and never pass the end that they were given."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import OffsetOutOfRange
from libs.commitlog.segments.segment import Segment
from libs.wire.record_batches.batches import iter_batches
from tests.commitlog.harness import (
    SMALL,
    all_bytes,
    append,
    append_some,
    batch_at,
    content,
    offset_for_timestamp,
    open_log,
    read_batches,
    searched,
)


def test_appended_records_are_read_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batches = [batch_at(0, count=2), batch_at(2), batch_at(3, count=5)]
    append(log, *batches)
    assert all_bytes(log) == b"".join(batches)
    assert log.log_end_offset == 8


def test_an_empty_log_has_nothing_to_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.read(0, 100, 0, at_least_one_batch=True) is None


def test_offsets_outside_of_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, log_start_offset=5)
    append_some(log, 2)
    for offset in (4, 8, -1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 7, at_least_one_batch=True)


def test_a_read_between_the_given_end_and_the_log_end_is_empty_not_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 4)
    assert log.read(3, 100, 2, at_least_one_batch=True) is None


def test_a_read_stops_at_the_batch_that_begins_at_the_given_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, count=3), batch_at(3, count=3), batch_at(6))
    assert [b.header.base_offset for b in read_batches(log, 0, end_offset=6)] == [0, 3]


def test_a_read_never_passes_an_end_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, count=3), batch_at(3, count=3))
    assert [b.header.base_offset for b in read_batches(log, 0, end_offset=4)] == [0]


def test_the_first_batch_comes_whole_if_at_least_one_is_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = batch_at(0, size=300)
    append(log, batch, batch_at(1))
    piece = log.read(0, 10, 2, at_least_one_batch=True)
    assert piece is not None
    assert piece.length == len(batch)
    assert log.read(0, 10, 2, at_least_one_batch=False) is None


def test_a_read_is_cut_at_max_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = batch_at(0)
    append_some(log, 5)
    piece = log.read(0, len(batch) + 3, 5, at_least_one_batch=True)
    assert piece is not None
    assert piece.length == len(batch) + 3


def test_a_read_from_the_middle_of_a_batch_gives_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, count=10), batch_at(10))
    piece = log.read(7, 1000, 11, at_least_one_batch=True)
    assert piece is not None
    assert piece.first_offset == 0


def test_a_consumer_at_the_tail_reads_each_batch_once_while_segments_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    seen: list[int] = []
    for _ in range(60):
        append_some(log, 1)
        seen += [b.header.base_offset for b in read_batches(log, len(seen))]
    assert seen == list(range(60))
    assert len(log.segments) > 3


def test_the_high_watermark_may_lie_in_an_older_segment_than_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 60)
    for end in range(61):
        assert len(read_batches(log, 0, end_offset=end)) == end


def test_a_descriptor_reads_on_after_its_file_was_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 2)
    piece = log.read(0, 1000, 2, at_least_one_batch=True)
    assert piece is not None
    before = content(piece)
    log.truncate_to(0)
    append_some(log, 1, size=99)
    assert content(piece) == before


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 7), min_size=1, max_size=40),
    interval=st.sampled_from([1, 100, 400, 10_000]),
    segment_bytes=st.sampled_from([400, 1500, 100_000]),
)
def test_every_lookup_equals_a_linear_scan(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], interval: int, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=800)
    log = open_log(tmp_path_factory.mktemp("log"), config=config)
    offset = 0
    for count in counts:
        append(log, batch_at(offset, count=count))
        offset += count
    for segment in log.segments:
        headers = list(iter_batches(content_of(segment)))
        for target in range(segment.base_offset, log.log_end_offset + 1):
            place = segment.find(target)
            linear = next((b.header for b in headers if b.header.last_offset >= target), None)
            assert (place and (place.base_offset, place.last_offset, place.size)) == (
                linear and (linear.base_offset, linear.last_offset, linear.size)
            )


def content_of(segment: Segment) -> bytes:
    with open(segment.file.path, "rb") as file:
        return file.read()


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 20)
    log.roll()
    expected = all_bytes(log)
    log.close(clean=True)
    index = next(path for path in sorted(tmp_path.glob("*.index")) if path.stat().st_size)
    index.write_bytes(b"\x00\x00\x00\x01\x7f\x00\x00\x00" * (index.stat().st_size // 8))
    assert all_bytes(open_log(tmp_path)) == expected


def test_a_missing_index_is_made_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 40)
    expected = all_bytes(log)
    log.close(clean=True)
    for path in [*tmp_path.glob("*.index"), *tmp_path.glob("*.timeindex")]:
        path.unlink()
    reopened = open_log(tmp_path)
    assert all_bytes(reopened) == expected
    assert offset_for_timestamp(reopened, 1000, 40) is not None


def test_timestamps_are_found_at_the_first_record_that_is_late_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for batch, codec in enumerate((0, 1, 2, 3, 4) * 6):
        append(log, batch_at(batch * 4, count=4, timestamp=batch * 100, epoch=2, codec=codec))
    result = offset_for_timestamp(log, 502, 120)
    assert result is not None
    assert (result.offset, result.timestamp, result.leader_epoch) == (22, 502, 2)
    assert offset_for_timestamp(log, 504, 120) == (24, 600, 2)
    assert offset_for_timestamp(log, 0, 120) == (0, 0, 2)
    assert offset_for_timestamp(log, 99_999, 120) is None
    assert offset_for_timestamp(log, 502, 22) is None


def test_the_greatest_timestamp_names_its_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert searched(log.search_max_timestamp()) is None
    append(log, batch_at(0, count=3, timestamp=500), batch_at(3, count=3, timestamp=100))
    assert searched(log.search_max_timestamp()) == (2, 502, 0)


@settings(max_examples=40, deadline=None)
@given(stamps=st.lists(st.integers(0, 50), min_size=1, max_size=50), target=st.integers(0, 55))
def test_timestamp_lookups_equal_a_linear_scan(tmp_path_factory: pytest.TempPathFactory, stamps: list[int], target: int) -> None:
    log = open_log(tmp_path_factory.mktemp("log"), config=SMALL)
    for offset, stamp in enumerate(stamps):
        append(log, batch_at(offset, timestamp=stamp))
    expected = next(((o, s, 0) for o, s in enumerate(stamps) if s >= target), None)
    assert offset_for_timestamp(log, target, len(stamps)) == expected
    assert searched(log.search_max_timestamp()) == (stamps.index(max(stamps)), max(stamps), 0)
