"""Bugs of other logs on disk, one test each: here, or where the table says."""

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.files.sync import run_round
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from tests.commitlog.harness import QuickFileSystem, all_bytes, append, append_some, batch_at, files, open_log, sync
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

ELSEWHERE = {
    "KAFKA-10471": "commitlog/test_directory.py::test_a_clean_stop_is_seen_once",
    "KAFKA-10778": "commitlog/test_disk_faults.py::test_after_an_io_error_all_appends_are_refused_until_reopened",
    "KAFKA-12520": "commitlog/test_swapping.py::test_a_leftover_swap_does_not_cost_the_producer_state",
    "KAFKA-6264, KAFKA-5413": "commitlog/test_index_files.py::test_relative_offsets_beyond_31_bits_roll",
    "KAFKA-6492": "commitlog/test_truncation.py::test_truncation_to_nothing_then_append",
    "KAFKA-13603": "commitlog/test_recovery.py::test_an_empty_active_segment_without_indexes_is_not_damage",
    "KAFKA-4576": "commitlog/test_disk_faults.py::test_short_writes_are_continued",
    "KAFKA-6683, KAFKA-5249": "commitlog/test_truncation.py::test_truncation_brings_producers_back_to_the_cut",
    "KAFKA-5829": "commitlog/test_recovery.py::test_snapshots_beyond_the_recovered_end_go",
    "KAFKA-1758, KAFKA-2012": "commitlog/test_directory.py::test_a_damaged_checkpoint_does_not_block_a_start",
    "disk full": "commitlog/test_disk_faults.py::test_a_disk_that_fills_up_at_any_call_leaves_the_log_as_it_was",
    "KAFKA-8335": "commitlog/test_cleaner_rules.py::test_empty_batches_go_when_their_producer_is_forgotten",
    "KAFKA-13194": "storage/test_log_cleaner.py::test_nothing_past_the_high_watermark_is_compacted",
    "KAFKA-8764": "commitlog/test_cleaner_rules.py::test_a_gap_at_the_end_of_a_segment_does_not_hold_the_cleaner_up",
    "KAFKA-9133": "commitlog/test_cleaner_planning.py::test_a_log_that_starts_within_its_active_segment_has_nothing_to_clean",
    "KAFKA-8522": "commitlog/test_cleaner_rules.py::test_a_tombstone_waits_for_its_horizon_and_goes",
    "KAFKA-3123": "storage/test_log_cleaner.py::test_cleaning_goes_on_after_a_truncation_that_failed",
}


@pytest.mark.parametrize("scenario", ELSEWHERE)
def test_every_scenario_has_its_test(scenario: str, root: Path) -> None:
    file, name = ELSEWHERE[scenario].split("::")
    assert re.search(rf"^(async )?def {name}\(", (root / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), ELSEWHERE[
        scenario
    ]


def test_kafka_10101_a_recovery_point_is_no_further_than_what_was_synced_nor_than_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    sync(log, resume_point=True)
    assert log.recovery_point == 5
    append_some(log, 5)
    targets = log.sync_targets(resume_point=True)
    assert targets is not None
    assert log.recovery_point == 5  # the round is only planned
    log.truncate_to(3)
    log.mark_synced(targets)  # it was overtaken
    assert log.recovery_point <= log.log_end_offset == 3
    assert open_log(tmp_path).recovery_point <= 3


def test_kafka_9892_producer_snapshots_are_on_disk_before_anything_relies_on_them() -> None:
    disk = SimulatedDisk(Sometimes())
    disk.make_directories("/logs")
    disk.fsync_directory("/")
    log = open_log(Path("/logs/t-0"), disk)  # type: ignore[arg-type]
    for number in range(40):
        append(log, batch_at(number, producer_id=3, producer_epoch=0, base_sequence=number))
    targets = log.sync_targets(resume_point=True)
    assert targets is not None
    run_round([targets], disk, "/logs/t-0")
    log.mark_synced(targets)
    bases = [segment.base_offset for segment in log.segments[1:]]
    assert bases
    for seed in range(20):
        left = disk.crashed(Random(seed))
        for base in bases:
            path = f"/logs/t-0/{base:020d}.snapshot"
            fd = left.open_read(path)
            (entry,) = parse_snapshot(left.pread(fd, left.size(fd), 0), path).values()
            assert entry.batches[-1].last_sequence == base - 1


def test_kafka_16541_a_power_cut_while_the_epoch_file_is_replaced_costs_no_epoch() -> None:
    """The power fails before each operation of the round that replaces the file. A random choice decides which unsynced data
    survive."""
    disk = SimulatedDisk(Sometimes())
    disk.make_directories("/logs")
    disk.fsync_directory("/")
    log = open_log(Path("/logs/t-0"), disk)  # type: ignore[arg-type]
    append_some(log, 2, epoch=1)
    sync(log, resume_point=True)
    append_some(log, 2, epoch=4)
    targets = log.sync_targets(resume_point=True)
    assert targets is not None
    left: list[SimulatedDisk] = []
    operations: list[str] = []

    def look(operation: str) -> None:
        operations.append(operation)
        left.extend(disk.crashed(Random(seed)) for seed in range(12))

    disk.before = look
    run_round([targets], disk, "/logs/t-0")
    disk.before = None
    assert "rename" in operations
    files_left = set()
    for crashed in left:
        fd = crashed.open_read("/logs/t-0/leader-epoch-checkpoint")
        files_left.add(crashed.pread(fd, crashed.size(fd), 0))
        again = open_log(Path("/logs/t-0"), crashed)  # type: ignore[arg-type]
        assert again.log_end_offset >= 2
        assert again.epochs.entries() == [(1, 0), (4, 2)][: 1 + (again.log_end_offset > 2)]
    assert files_left == {b"0\n1\n1 0\n", b"0\n2\n1 0\n4 2\n"}


class HeldFileSystem(QuickFileSystem):
    """A file system whose syncs take as long as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.written = 0

    def fdatasync(self, fd: int) -> None:
        self.begun.set()
        assert self.go_on.wait(30)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self.written += 1
        return super().pwritev(fd, buffers, position)


def test_kafka_15046_a_sync_holds_up_neither_appends_nor_rolls_nor_reads(tmp_path: Path) -> None:
    fs = HeldFileSystem()
    log = open_log(tmp_path, fs)
    append_some(log, 3)
    targets = log.sync_targets()
    assert targets is not None
    round_ = threading.Thread(target=run_round, args=([targets], fs, str(tmp_path)))
    round_.start()
    try:
        assert fs.begun.wait(30)
        append_some(log, 40)  # several segments
        assert len(log.segments) > 3
        assert len(all_bytes(log)) == log.size
        assert log.durable_offset == 0
    finally:
        fs.go_on.set()
        round_.join()
    log.mark_synced(targets)
    assert log.durable_offset == 3


def test_kafka_6683_a_snapshot_goes_only_with_the_segments_before_it(tmp_path: Path) -> None:
    """KAFKA-5829 too: deleted too early, it left a broker that had to read its whole log."""
    log = open_log(tmp_path)
    for number in range(40):
        append(log, batch_at(number, producer_id=3, producer_epoch=0, base_sequence=number))
    sync(log, resume_point=True)
    kept = log.segments[2].base_offset
    log.delete_before(kept, log.log_end_offset)
    log.advance_start()
    sync(log)
    assert f"{kept:020d}.snapshot" in files(tmp_path, ".snapshot")
    assert log.retire_segments() is not None
    sync(log)
    assert f"{kept:020d}.snapshot" in files(tmp_path, ".snapshot")
    assert all(int(name[:20]) >= kept for name in files(tmp_path, ".snapshot"))
