"""When a segment ends by its age, and what is reserved for one and given back."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.segment_rolling import age_ms_max
from tests.commitlog.harness import (
    SMALL,
    FaultyFileSystem,
    SetClock,
    all_bytes,
    append,
    append_some,
    batch_at,
    files,
    offset_for_timestamp,
    open_log,
    read_batches,
    searched,
    sync,
)

HOUR, DAY, YEAR = 3_600_000, 86_400_000, 365 * 86_400_000
MIB = 1 << 20
AGED = replace(SMALL, segment_bytes=MIB, segment_ms=HOUR)


def put(log: Log, timestamp: int) -> None:
    append(log, batch_at(log.log_end_offset, timestamp=timestamp))


def test_without_jitter_a_segment_lives_for_segment_ms(tmp_path: Path) -> None:
    assert age_ms_max("/logs/t-0", 0, AGED) == HOUR
    log = open_log(tmp_path, config=AGED)
    put(log, 5000)
    put(log, 5000 + HOUR)
    assert len(log.segments) == 1
    put(log, 5000 + HOUR + 1)
    assert len(log.segments) == 2


def test_jitter_takes_up_to_itself_off_and_spreads_partitions_and_segments() -> None:
    config = replace(AGED, segment_jitter_ms=HOUR // 2)
    of_partitions = [age_ms_max(f"/logs/t-{index}", 0, config) for index in range(100)]
    of_segments = [age_ms_max("/logs/t-0", offset, config) for offset in range(100)]
    for drawn in (of_partitions, of_segments):
        assert all(HOUR // 2 < age <= HOUR for age in drawn)
        assert len(set(drawn)) > 95
        assert max(drawn) - min(drawn) > HOUR // 2 * 0.9
    assert of_partitions == [age_ms_max(f"/elsewhere/t-{index}", 0, config) for index in range(100)]


def test_jitter_above_segment_ms_never_makes_an_age_below_zero() -> None:
    config = replace(AGED, segment_jitter_ms=(1 << 63) - 1)
    assert all(0 < age_ms_max("/logs/t-0", offset, config) <= HOUR for offset in range(100))


def test_a_segment_ends_at_its_own_age(tmp_path: Path) -> None:
    config = replace(AGED, segment_jitter_ms=HOUR // 2)
    log = open_log(tmp_path / "t-0", config=config)
    ends = []
    for _ in range(5):
        first = 10 * HOUR * (len(ends) + 1)
        age = age_ms_max(log.directory, log.log_end_offset if log.active.size else log.active.base_offset, config)
        put(log, first)
        put(log, first + age)
        count = len(log.segments)
        put(log, first + age + 1)
        assert len(log.segments) == count + 1
        ends.append(age)
    assert len(set(ends)) == 5


def test_a_new_segment_ms_holds_for_the_segment_that_is_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=AGED)
    put(log, 5000)
    log.config = replace(AGED, segment_ms=1000)
    put(log, 6001)
    assert len(log.segments) == 2


# --- a clock that jumps


@pytest.mark.parametrize("jump", [-DAY, YEAR])
def test_the_age_of_records_with_timestamps_does_not_follow_the_clock(tmp_path: Path, jump: int) -> None:
    clock = SetClock(10 * DAY)
    log = open_log(tmp_path, config=AGED, clock=clock)
    put(log, clock.now_ms)
    clock.now_ms += jump
    put(log, 10 * DAY + 1)  # its producer's clock did not jump
    assert len(log.segments) == 1


@pytest.mark.parametrize(("jump", "segments"), [(-DAY, 1), (HOUR, 1), (YEAR, 2)])
def test_without_timestamps_a_segment_is_as_old_as_the_clock_says(tmp_path: Path, jump: int, segments: int) -> None:
    clock = SetClock(10 * DAY)
    log = open_log(tmp_path, config=AGED, clock=clock)
    put(log, -1)
    clock.now_ms += jump
    put(log, -1)
    assert len(log.segments) == segments


def test_a_log_that_is_stamped_backwards_neither_rolls_nor_loses_its_order(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=AGED)
    for timestamp in (10 * DAY, 9 * DAY, 10 * DAY + 1, 9 * DAY + 1):
        put(log, timestamp)
    assert len(log.segments) == 1
    result = offset_for_timestamp(log, 9 * DAY, log.log_end_offset)
    assert result is not None
    assert (result.offset, result.timestamp) == (0, 10 * DAY)  # the first that is at least as late, wherever later ones stand
    newest = searched(log.search_max_timestamp())
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (2, 10 * DAY + 1)


# --- preallocate

ROOMY = LogConfig(segment_bytes=4 * MIB, segment_index_bytes=240, index_interval_bytes=150, preallocate=True)


def reserved(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def test_space_is_reserved_beyond_the_end_and_given_back_when_the_segment_ends(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=ROOMY)
    append_some(log, 3)
    first, size = tmp_path / f"{0:020d}.log", log.active.size
    assert os.stat(first).st_size == size
    assert reserved(first) >= ROOMY.segment_bytes
    log.roll()
    assert os.stat(first).st_size == size
    assert reserved(first) < MIB
    assert reserved(tmp_path / files(tmp_path, ".log")[1]) >= ROOMY.segment_bytes


def test_a_stop_gives_back_what_was_reserved(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=ROOMY)
    append_some(log, 3)
    log.close(clean=True)
    assert reserved(tmp_path / f"{0:020d}.log") < MIB


def test_after_a_crash_a_reserved_segment_holds_what_was_written_and_no_zeros(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=ROOMY)
    append_some(log, 3)
    sync(log)
    append_some(log, 2)
    written = all_bytes(log)
    del log
    again = open_log(tmp_path, config=ROOMY)
    assert (again.truncated_bytes, again.log_end_offset) == (0, 5)
    assert all_bytes(again) == written
    append_some(again, 1)
    assert [batch.header.base_offset for batch in read_batches(again, 0)] == list(range(6))


def test_a_disk_without_room_for_a_segment_refuses_it_and_keeps_the_log(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, config=replace(ROOMY, segment_bytes=300))
    append_some(log, 2)
    fs.fail("reserve", after=0, error=errno.ENOSPC)
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 20)
    assert not refused.value.fatal
    assert files(tmp_path, ".log") == [f"{0:020d}.log"]
    end = log.log_end_offset
    fs.heal()
    append_some(log, 20)
    assert log.log_end_offset == end + 20
