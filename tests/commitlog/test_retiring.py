"""Segments leave the log for good: no crash brings them back, readers keep what they hold, and the rest goes on."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import OffsetOutOfRange
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.retention import Reason, RetentionPolicy
from libs.commitlog.segments.segment import FileRegistry
from libs.commitlog.segments.segment_removal import RetiredSegments, remove_retired
from tests.commitlog.harness import (
    FaultyFileSystem,
    QuickFileSystem,
    SetClock,
    all_bytes,
    append,
    append_some,
    batch_at,
    content,
    files,
    open_log,
    read_batches,
    sync,
)

FS = QuickFileSystem()
BY_TIME = RetentionPolicy(retention_ms=100, retention_bytes=-1)


def filled(path: Path, **options: Any) -> Log:
    """Several segments, all of it synced, with a resume point in the last."""
    log = open_log(path, **options)
    append_some(log, 60, epoch=3)
    sync(log, resume_point=True)
    assert len(log.segments) > 3
    return log


def start_at(log: Log, segment: int) -> int:
    """Does everything that a caller does, up to the renaming."""
    offset = log.segments[segment].base_offset
    log.delete_before(offset, log.log_end_offset)
    log.advance_start()
    return offset


def retire(log: Log) -> RetiredSegments:
    retired = log.retire_segments()
    assert retired is not None
    return retired


def test_retired_segments_leave_the_log_and_then_the_directory(tmp_path: Path) -> None:
    log = filled(tmp_path)
    kept = b"".join(bytes(batch.view) for batch in read_batches(log, log.segments[2].base_offset))
    start = start_at(log, 2)
    paths = retire(log).rename(FS)
    assert log.log_start_offset == log.segments[0].base_offset == start
    assert all_bytes(log) == kept
    assert len(files(tmp_path, ".deleted")) == 6
    remove_retired(FS, paths)
    assert files(tmp_path, ".deleted") == []
    assert files(tmp_path, ".log")[0] == f"{start:020d}.log"
    remove_retired(FS, paths)  # again, or with the partition gone
    shutil.rmtree(tmp_path)
    remove_retired(FS, paths)


def test_a_reader_keeps_what_it_holds(tmp_path: Path) -> None:
    registry = FileRegistry()
    log = filled(tmp_path, registry=registry)
    piece = log.read(0, 1 << 20, log.log_end_offset, at_least_one_batch=True)
    assert piece is not None
    before, fd = content(piece), piece.file.open_readonly()
    start_at(log, 2)
    remove_retired(FS, retire(log).rename(FS))
    assert os.pread(fd, piece.length, piece.position) == before
    os.close(fd)
    assert registry.get(piece.file.file_id) is None
    assert registry.get(log.active.file.file_id) is not None
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 1 << 20, log.log_end_offset, at_least_one_batch=True)


def test_the_start_never_passes_the_high_watermark_nor_goes_back(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(11, 10)
    log.delete_before(10, 10)
    assert (log.next_start_offset, log.log_start_offset) == (10, 0)
    log.advance_start()
    log.delete_before(5, 10)
    log.advance_start()
    assert (log.next_start_offset, log.log_start_offset) == (10, 10)


def test_epochs_begin_with_the_log_and_producers_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, epoch=1, producer_id=7, producer_epoch=0, base_sequence=0))
    append_some(log, 20, epoch=2)
    append_some(log, 30, epoch=5)
    sync(log, resume_point=True)
    start = start_at(log, 1)
    assert 0 < start < 21
    retire(log).rename(FS)
    assert log.epochs.entries() == [(2, start), (5, 21)]
    assert list(log.producers.entries) == [7]
    sync(log)
    for name in files(tmp_path, ".snapshot"):
        assert int(name[:20]) >= start
    again = open_log(tmp_path, log_start_offset=start)
    assert again.epochs.entries() == [(2, start), (5, 21)]
    assert list(again.producers.entries) == [7]


def test_producers_outlive_a_truncation_of_what_stayed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, producer_id=7, producer_epoch=0, base_sequence=0))
    append_some(log, 40)
    sync(log, resume_point=True)
    start = start_at(log, 3)
    retire(log).rename(FS)
    sync(log)
    log.truncate_to(start + 1)
    assert list(log.producers.entries) == [7]
    assert list(open_log(tmp_path, log_start_offset=start).producers.entries) == [7]


def test_segments_that_recovery_needs_stay_until_a_newer_resume_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 3)
    sync(log, resume_point=True)
    first = log.segments[0].size
    append_some(log, 30)
    sync_without_resume_point(log)
    start_at(log, 2)
    assert first  # the only resume point names the first segment
    assert log.retire_segments() is None
    sync(log)  # `delete_before` asked for a resume point
    assert retire(log).base_offsets[0] == 0


def sync_without_resume_point(log: Log) -> None:
    log._ledger.resume_wanted = False
    sync(log)
    log._ledger.resume_wanted = False


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_which_all_went_goes_on_where_it_was(tmp_path: Path, clean: bool) -> None:
    clock = SetClock(5000)
    log = filled(tmp_path, clock=clock)
    end = log.log_end_offset
    assert log.expired(BY_TIME, end, clock.now_ms) == [Reason.TIME] * len(log.segments)
    log.roll()
    log.delete_before(end, end)
    log.advance_start()
    assert log.retire_segments() is not None  # all but the one that the resume point names
    sync(log)
    retire(log).rename(FS)
    assert (log.log_start_offset, log.log_end_offset, log.size, len(log.segments)) == (end, end, 0, 1)
    assert log.expired(BY_TIME, end, clock.now_ms + 10_000) == []
    sync(log)
    if clean:
        log.close(clean=True)
    again = open_log(tmp_path, log_start_offset=end)
    assert (again.log_start_offset, again.log_end_offset) == (end, end)
    append_some(again, 1)
    assert [batch.header.base_offset for batch in read_batches(again, end)] == [end]


def test_a_crash_after_any_step_neither_resurrects_nor_loses(tmp_path: Path) -> None:
    """Every state of the directory between two file operations is opened, with the start that was on disk by then."""
    source = tmp_path / "source"
    log = filled(source)
    end, everything = log.log_end_offset, all_bytes(log)
    snapshots: list[tuple[Path, int]] = []
    start_on_disk = 0

    def crash_here() -> None:
        copy = tmp_path / f"crash-{len(snapshots)}"
        shutil.copytree(source, copy)
        snapshots.append((copy, start_on_disk))

    class Watched(QuickFileSystem):
        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            crash_here()

        def unlink(self, path: str) -> None:
            super().unlink(path)
            crash_here()

    crash_here()
    log.delete_before(log.segments[3].base_offset, end)
    start_on_disk = log.next_start_offset
    crash_here()
    log.advance_start()
    kept = b"".join(bytes(batch.view) for batch in read_batches(log, start_on_disk))
    remove_retired(Watched(), retire(log).rename(Watched()))
    assert len(snapshots) > 12
    for path, start in snapshots:
        for _ in range(2):  # opening twice equals opening once
            again = open_log(path, log_start_offset=start)
            assert (again.log_start_offset, again.log_end_offset) == (start, end)
            assert all_bytes(again) == (kept if start else everything)
            assert files(path, ".deleted") == []


def test_renames_that_reached_the_disk_out_of_order_leave_no_hole(tmp_path: Path) -> None:
    """A power cut may keep a later rename and lose an earlier one."""
    log = filled(tmp_path)
    start, lost = log.segments[3].base_offset, log.segments[1].base_offset
    for suffix in (".log", ".index", ".timeindex"):
        os.rename(tmp_path / f"{lost:020d}{suffix}", tmp_path / f"{lost:020d}{suffix}.deleted")
    again = open_log(tmp_path, log_start_offset=start)
    assert again.segments[0].base_offset == again.log_start_offset == start
    assert files(tmp_path, ".log")[0] == f"{start:020d}.log"


def test_a_rename_that_fails_is_finished_at_the_next_opening(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = filled(tmp_path, fs=fs)
    start = start_at(log, 3)
    fs.fail("rename", after=2)
    with pytest.raises(OSError, match="No space"):
        retire(log).rename(fs)
    assert log.log_start_offset == start
    again = open_log(tmp_path, log_start_offset=start)
    assert again.segments[0].base_offset == start


def test_a_log_that_ends_before_its_start_begins_anew_there(tmp_path: Path) -> None:
    """As in Kafka, offsets are not given twice, even if a crash lost the records since."""
    filled(tmp_path)
    again = open_log(tmp_path, log_start_offset=500)
    assert (again.log_start_offset, again.log_end_offset, again.size) == (500, 500, 0)
    append_some(again, 2, epoch=4)
    sync(again)
    third = open_log(tmp_path, log_start_offset=500)
    assert (third.log_start_offset, third.log_end_offset) == (500, 502)
    assert third.epochs.entries() == [(4, 500)]


def test_records_without_timestamps_age_with_their_file(tmp_path: Path) -> None:
    clock = SetClock()
    log = filled(tmp_path, clock=clock)
    other = open_log(tmp_path / "other", clock=clock)
    for _ in range(30):
        append(other, batch_at(other.log_end_offset, timestamp=-1))
    written = int((tmp_path / "other" / f"{0:020d}.log").stat().st_mtime * 1000)
    assert other.expired(BY_TIME, other.log_end_offset, written) == []
    assert other.expired(BY_TIME, other.log_end_offset, written + 60_000)
    assert log.expired(BY_TIME, log.log_end_offset, 1_000_000)


AGES = LogConfig(segment_ms=100)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_ends_when_a_batch_is_so_much_newer_than_its_first(tmp_path: Path) -> None:
    """The greatest timestamp of each: `batch_at` gives a batch of three records its timestamp and the two ms after it."""
    log = open_log(tmp_path, config=AGES)
    append(log, batch_at(0, count=3, timestamp=1000))
    append(log, batch_at(3, timestamp=1102))  # 100 after 1002
    assert bases(log) == [0]
    append(log, batch_at(4, timestamp=1103))
    assert bases(log) == [0, 4]
    append(log, batch_at(5, timestamp=10))  # older is no reason
    assert bases(log) == [0, 4]


def test_batches_of_one_write_that_are_far_apart_get_segments_of_their_own(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=AGES)
    append(log, batch_at(0, timestamp=1000), batch_at(1, timestamp=2000), batch_at(2, timestamp=2050))
    assert bases(log) == [0, 1]


def test_without_timestamps_a_segment_ages_by_the_wall_clock(tmp_path: Path) -> None:
    clock = SetClock()
    log = open_log(tmp_path, config=AGES, clock=clock)
    append(log, batch_at(0, timestamp=-1))
    clock.now_ms += 100
    append(log, batch_at(1, timestamp=-1))
    assert bases(log) == [0]
    clock.now_ms += 1
    append(log, batch_at(2, timestamp=-1))
    assert bases(log) == [0, 2]
    clock.now_ms -= 1_000_000  # a clock that goes back rolls nothing
    append(log, batch_at(3, timestamp=-1))
    assert bases(log) == [0, 2]
