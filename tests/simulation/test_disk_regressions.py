"""Bugs that random seeds found, as stories: each failed before its fix. All outcomes of a power cut are tried."""

import contextlib
import errno
from collections.abc import Callable
from random import Random

import pytest

from libs.commitlog.files.sync import run_round
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, LogDirectory
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.segment import FileRegistry
from libs.wire.record_batches.batches import BatchHeader
from tests.commitlog.harness import SetClock, append, append_some, batch_at
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

SMALL = LogConfig(segment_bytes=700, segment_index_bytes=240, index_interval_bytes=100)
OUTCOMES = 150


class Killed(Exception):
    pass


def open_on(disk: SimulatedDisk, *, clean: bool = False) -> Log:
    checkpoints = LogCheckpoints(clean=clean)
    return Log.open("/logs/t-0", "t", 0, SMALL, disk, registry=FileRegistry(), clock=SetClock(), checkpoints=checkpoints)


def new_log() -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk(Sometimes(), page_size=512)
    disk.make_directories("/logs/t-0")
    disk.fsync_directory("/")
    disk.fsync_directory("/logs")
    return disk, open_on(disk)


def sync(disk: SimulatedDisk, log: Log, *, resume_point: bool = False) -> None:
    targets = log.sync_targets(resume_point=resume_point)
    assert targets is not None
    run_round([targets], disk, "/logs")
    log.mark_synced(targets)


def after_a_power_cut(disk: SimulatedDisk) -> list[Log]:
    return [open_on(disk.crashed(Random(f"outcome {number}"))) for number in range(OUTCOMES)]


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    for segment in log.segments:
        for place in segment.walk(0, segment.size):
            found += range(place.base_offset, place.last_offset + 1)
    return found


def check_indexes(log: Log) -> None:
    for segment in log.segments:
        places = {(place.last_offset - segment.base_offset, place.position) for place in segment.walk(0, segment.size)}
        entries = [segment.offset_index.entry(slot) for slot in range(segment.offset_index.count)]
        assert set(entries) <= places
        assert entries == sorted(set(entries))
        latest = [place.max_timestamp for place in segment.walk(0, segment.size)]
        assert segment.max_timestamp == max(latest, default=-1)


def cut_at_every_operation(disk: SimulatedDisk, work: Callable[[], object]) -> list[SimulatedDisk]:
    """Three pictures of what the power leaves at each."""
    pictures: list[SimulatedDisk] = []
    disk.before = lambda _: pictures.extend(disk.crashed(Random(f"{len(pictures)}")) for _ in range(3))
    work()
    disk.before = None
    return pictures


def kill_after(disk: SimulatedDisk, operations: int, work: Callable[[], object]) -> None:
    """Lets `work` do so many operations, or all if they are fewer."""
    last = disk.operations + operations

    def die(_: str) -> None:
        if disk.operations > last:
            raise Killed

    disk.before = die
    with contextlib.suppress(Killed):
        work()
    disk.before = None


def test_a_log_that_was_never_synced_has_no_hole_after_a_crash() -> None:
    """The lost end of a segment was taken for a gap that a cleaner had made, and the log went on behind it."""
    disk, log = new_log()
    append_some(log, 20)
    assert len(log.segments) > 2
    for again in after_a_power_cut(disk):
        assert offsets(again) == list(range(again.log_end_offset))


def test_indexes_that_recovery_sealed_are_synced_before_a_later_resume_point() -> None:
    """A resume point at the end of a segment: recovery unseals and seals its indexes, and counted them as synced."""
    disk, log = new_log()
    append_some(log, 5)
    sync(disk, log, resume_point=True)
    log.roll()
    append_some(log, 2)
    names = log.sync_targets()
    assert names is not None
    disk.fsync_directory("/logs/t-0")
    disk.fdatasync(log.active.file.handle.fd)  # the round had come so far
    disk = disk.crashed(Random("the new segment's name is there"))
    log = open_on(disk)
    append_some(log, 1)
    sync(disk, log, resume_point=True)
    for again in after_a_power_cut(disk):
        check_indexes(again)


def test_a_truncation_to_a_resume_point_survives_a_crash_half_way() -> None:
    """The segment that the resume point named went first, and the log was taken for damaged."""
    disk, log = new_log()
    append_some(log, 4)
    log.roll()
    sync(disk, log, resume_point=True)
    assert log.active.size == 0
    end = log.log_end_offset
    append_some(log, 3)
    for picture in cut_at_every_operation(disk, lambda: log.truncate_to(end)):
        assert offsets(open_on(picture)) == list(range(open_on(picture).log_end_offset))


def test_the_indexes_of_a_segment_that_was_cut_at_a_resume_point_are_synced() -> None:
    disk, log = new_log()
    append_some(log, 4)
    sync(disk, log, resume_point=True)
    end = log.log_end_offset
    append_some(log, 2)
    log.truncate_to(end)
    append_some(log, 2)
    sync(disk, log, resume_point=True)
    for again in after_a_power_cut(disk):
        assert offsets(again) == list(range(log.log_end_offset))
        check_indexes(again)


def test_a_round_that_a_truncation_overtook_leaves_no_resume_point() -> None:
    """It vouched for records that were gone."""
    disk, log = new_log()
    append_some(log, 10)
    targets = log.sync_targets(resume_point=True)
    assert targets is not None
    log.truncate_to(2)
    append_some(log, 3)
    run_round([targets], disk, "/logs")
    log.mark_synced(targets)
    for again in [open_on(disk.as_left_by_a_kill()), *after_a_power_cut(disk)]:
        assert offsets(again) == list(range(again.log_end_offset))
        assert again.recovery_point <= 5


@pytest.mark.parametrize("operations", range(1, 14))
@pytest.mark.parametrize("cut_to", [0, 1])
def test_records_that_a_killed_truncation_cut_do_not_come_back_behind_new_ones(operations: int, cut_to: int) -> None:
    """The next process saw the cut in the page cache only, appended, and a power cut brought back what had been cut."""
    disk, log = new_log()
    append_some(log, 10)
    sync(disk, log, resume_point=True)
    kill_after(disk, operations, lambda: log.truncate_to(cut_to))
    left = disk.as_left_by_a_kill()
    again = open_on(left)
    end = again.log_end_offset
    append(again, batch_at(end, epoch=7))
    for last in after_a_power_cut(left):
        assert last.log_end_offset <= end + 1


def test_no_round_vouches_for_a_log_whose_truncation_failed_to_sync() -> None:
    """The failed sync had dropped records, and the next round counted them as durable."""
    disk, log = new_log()
    append_some(log, 5)
    disk.faults.fail("fdatasync", errno.EIO)
    with pytest.raises(LogWriteError):
        log.truncate_to(3)
    assert log.sync_targets() is None
    assert log.durable_offset == 0
    with pytest.raises(OSError, match="truncation failed"):
        log.close(clean=True)


def test_no_round_vouches_for_a_log_whose_append_could_not_be_undone() -> None:
    """A resume point named the log's end before the batch that stayed, and the size behind it."""
    disk, log = new_log()
    append_some(log, 1)
    running = log.sync_targets()
    assert running is not None
    disk.faults.fail("truncate", errno.EIO)
    offset = log.log_end_offset
    with pytest.raises(LogWriteError) as refused:
        append(log, *[batch_at(offset + number, size=250) for number in range(4)])
    assert refused.value.fatal
    assert log.sync_targets(resume_point=True) is None
    run_round([running], disk, "/logs")
    log.mark_synced(running)
    assert log.durable_offset == 0


def test_all_five_batches_are_known_after_a_truncation_behind_a_snapshot() -> None:
    """The newest save was taken, a snapshot, which holds only the last batch of each producer."""
    disk, log = new_log()
    state = ProducerState()
    for number in range(4):
        batch = batch_at(number, producer_id=1, producer_epoch=0, base_sequence=number)
        append(log, batch)
        state.replay(BatchHeader.at(batch))
        if number == 0:
            sync(disk, log, resume_point=True)
    expected = dict(state.entries)
    log.roll()
    append(log, batch_at(4, producer_id=1, producer_epoch=0, base_sequence=4))
    targets = log.sync_targets()
    assert targets is not None
    run_round([targets], disk, "/logs")
    log.mark_synced(targets)
    log.truncate_to(4)
    assert log.producers.entries == expected


def test_a_partition_that_a_killed_process_had_renamed_away_does_not_come_back() -> None:
    """Its successor saw no partition any more, and the power took the rename that nobody had synced."""
    disk = SimulatedDisk(Sometimes(), page_size=512)
    directory = LogDirectory.open("/logs", disk, new_id=bytes(16), node_id=1)
    directory.create_partition("t", 0, bytes(16))
    disk.fsync_directory("/")
    directory.read_checkpoint(CLEANED_OFFSETS)  # else its directory is synced first
    kill_after(disk, 1, lambda: directory.schedule_deletion("t", 0, bytes(16)))
    disk.killed()
    successor = LogDirectory.open("/logs", disk, new_id=bytes(16), node_id=1)
    assert successor.list_partitions() == []
    for number in range(OUTCOMES):
        after = disk.crashed(Random(f"outcome {number}"))
        assert LogDirectory.open("/logs", after, new_id=bytes(16), node_id=1).list_partitions() == []


@pytest.mark.parametrize("is_stopped_between", [False, True])
def test_the_greatest_timestamp_survives_a_clean_stop_right_after_a_resume_point(*, is_stopped_between: bool) -> None:
    """The stop kept that resume point, which counted one time entry too few. The next start took the last of those for the
    greatest, and never wrote it again.

    After a clean stop in between, nothing had been preallocated, and the stop did not even write the entry.
    """
    disk, log = new_log()
    append(log, batch_at(0, size=60, timestamp=1000), batch_at(1, timestamp=1001))
    if is_stopped_between:
        log.close(clean=True)
        log = open_on(disk, clean=True)
    append(log, batch_at(2, timestamp=1500))
    sync(disk, log, resume_point=True)
    log.close(clean=True)
    for stopped in [disk, *[disk.crashed(Random(f"outcome {number}")) for number in range(OUTCOMES)]]:
        log = open_on(stopped, clean=True)
        times = log.active.time_index
        assert times.entry(times.count - 1)[0] == 1500
        append(log, batch_at(3, size=60, timestamp=900), batch_at(4, timestamp=900))
        log.roll()
        sync(stopped, log)
        check_indexes(open_on(stopped))
