"""Durability: which offsets are durable, and when."""

import os
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.sync import SyncTargets, run_round, sync_then_write
from libs.commitlog.files.writeback import UNKNOWN_DIRTY_BYTES, DirtyBytes
from libs.commitlog.model.errors import SyncFailed
from libs.commitlog.partition_log.log import Log
from tests.commitlog.harness import FaultyFileSystem, append_some, files, open_log, sync


def test_written_and_durable_are_two_numbers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    assert (log.log_end_offset, log.durable_offset) == (5, 0)
    targets = log.sync_targets()
    assert targets is not None
    append_some(log, 2)
    run_round([targets], log.fs, log.directory)
    log.mark_synced(targets)
    assert (log.log_end_offset, log.durable_offset) == (7, 5)
    sync(log)
    assert log.durable_offset == 7
    assert log.sync_targets() is None


def test_a_rolled_file_and_its_directory_belong_to_the_round_that_passes_its_base(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sync(log)
    append_some(log, 2)
    first = log.active.file.handle
    log.roll()
    append_some(log, 1)
    targets = log.sync_targets()
    assert targets is not None
    assert first in targets.files
    assert log.active.file.handle in targets.files
    assert targets.directories == (str(tmp_path),)


def test_a_new_log_syncs_its_own_name_too(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append_some(log, 1)
    targets = log.sync_targets()
    assert targets is not None
    assert set(targets.directories) == {str(tmp_path), str(tmp_path / "t-0")}


def test_a_file_that_rolls_while_it_is_synced_is_synced_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 1)
    targets = log.sync_targets()
    assert targets is not None
    append_some(log, 1)
    handle = log.active.file.handle
    log.roll()
    run_round([targets], log.fs, log.directory)
    log.mark_synced(targets)
    later = log.sync_targets()
    assert later is not None
    assert handle in later.files
    assert str(tmp_path) in later.directories


def test_many_files_are_synced_by_one_call(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    logs = [open_log(tmp_path / f"t-{i}", fs) for i in range(30)]
    for log in logs:
        append_some(log, 1)
        sync(log)
        append_some(log, 1)
    targets = [targets_of_log for log in logs if (targets_of_log := log.sync_targets()) is not None]
    fs.calls.clear()
    run_round(targets, fs, str(tmp_path))
    assert fs.calls == ["sync_all"]


@pytest.mark.parametrize(
    ("unwritten", "calls"),
    [(0, ["sync_all"]), (16 << 20, ["sync_all"]), ((16 << 20) + 1, ["fdatasync"] * 2), (UNKNOWN_DIRTY_BYTES, ["fdatasync"] * 2)],
)
def test_logs_share_one_call_unless_it_would_write_much_for_others(tmp_path: Path, unwritten: int, calls: list[str]) -> None:
    class Filled(FaultyFileSystem):
        def dirty_bytes(self) -> int:
            return unwritten

    fs = Filled()
    logs = [open_log(tmp_path / f"t-{i}", fs) for i in range(2)]
    for log in logs:
        append_some(log, 1)
        sync(log)
        append_some(log, 1)
    targets = [targets_of_log for log in logs if (targets_of_log := log.sync_targets()) is not None]
    fs.calls.clear()
    run_round(targets, fs, str(tmp_path))
    assert fs.calls == calls
    fs.calls.clear()
    run_round(targets[:1], fs, str(tmp_path))
    assert fs.calls == ["fdatasync"]


def test_the_bytes_that_the_kernel_has_to_write_are_known() -> None:
    assert 0 <= DirtyBytes().read() < UNKNOWN_DIRTY_BYTES


def test_a_kernel_whose_syncfs_hides_errors_is_not_asked_for_one() -> None:
    assert DirtyBytes("5.7.19-generic").read() == UNKNOWN_DIRTY_BYTES
    assert DirtyBytes("5.10.0-8-amd64").read() < UNKNOWN_DIRTY_BYTES
    assert DirtyBytes("unheard of").read() == UNKNOWN_DIRTY_BYTES


def many_to_write(path: Path, fs: OsFileSystem, count: int = 30) -> tuple[list[Log], list[SyncTargets]]:
    """Logs of two segments, and the small files that a round must write for each: a snapshot, epochs, a resume point."""
    logs = [open_log(path / f"t-{number}", fs) for number in range(count)]
    for log in logs:
        append_some(log, 1)
        log.roll()
        append_some(log, 1, epoch=3)
    return logs, [targets_of_log for log in logs if (targets_of_log := log.sync_targets(resume_point=True)) is not None]


def test_small_files_of_many_logs_share_their_syncs(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    logs, targets = many_to_write(tmp_path, fs)
    fs.calls.clear()
    run_round(targets, fs, str(tmp_path))
    assert [fs.calls.count(call) for call in ("sync_all", "fdatasync", "fsync_directory")] == [5, 0, 0]
    renames = [at for at, call in enumerate(fs.calls) if call == "rename"]
    syncs = [at for at, call in enumerate(fs.calls) if call == "sync_all"]
    assert len(renames) == 90
    assert all(
        any(before < sync < after for sync in syncs) for before, after in [(renames[59], renames[60])]
    )  # resume points last
    for log, target in zip(logs, targets, strict=True):
        log.mark_synced(target)
        assert log.recovery_point == log.log_end_offset
        directory = Path(log.directory)
        assert [len(files(directory, suffix)) for suffix in (".tmp", ".resume", ".snapshot")] == [0, 1, 1]
        assert log.sync_targets() is None
        again = open_log(directory)
        assert again.scanned_bytes == 0
        assert again.epochs.latest == 3


@pytest.mark.parametrize("after", [0, 1, 45, 70])
def test_a_full_disk_is_left_no_small_file_that_was_begun(tmp_path: Path, after: int) -> None:
    fs = FaultyFileSystem()
    logs, targets = many_to_write(tmp_path, fs)
    fs.fail("pwritev", after=after)
    assert not sync_then_write(targets, fs, str(tmp_path))
    fs.heal()
    assert not list(tmp_path.rglob("*.tmp"))
    for log, target in zip(logs, targets, strict=True):
        log.mark_synced(target.without_writes())
        assert log.durable_offset == log.log_end_offset
        assert log.recovery_point == 0
    later = [targets_of_log for log in logs if (targets_of_log := log.sync_targets()) is not None]
    assert len(later) == len(logs)
    assert sync_then_write(later, fs, str(tmp_path))
    assert [len(files(Path(log.directory), ".resume")) for log in logs] == [1] * len(logs)


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_no_room_in_a_sync_of_small_files_is_final(tmp_path: Path, after: int) -> None:
    """The bytes without room may be a log's own, written meanwhile: then they are lost."""
    fs = FaultyFileSystem()
    _, targets = many_to_write(tmp_path, fs)
    fs.fail("sync_all", after=after)
    with pytest.raises(SyncFailed):
        sync_then_write(targets, fs, str(tmp_path))


def test_a_log_that_is_cut_during_a_round_is_left_nothing_by_it(tmp_path: Path) -> None:
    class CutsMeanwhile(FaultyFileSystem):
        syncs = 0

        def sync_all(self, path: str) -> None:
            self.syncs += 1
            if self.syncs == 2:  # its small files were begun
                logs[7].truncate_to(1)

    fs = CutsMeanwhile()
    logs, targets = many_to_write(tmp_path, fs)
    run_round(targets, fs, str(tmp_path))
    assert [len(files(Path(log.directory), ".resume")) for log in logs] == [int(log is not logs[7]) for log in logs]
    assert open_log(Path(logs[7].directory)).log_end_offset == 1


def test_a_descriptor_outlives_the_log_that_drops_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    targets = log.sync_targets()
    assert targets is not None
    log.truncate_to(0)
    run_round([targets], log.fs, log.directory)  # the file is unlinked, its number not yet given to another


def test_a_recovered_tail_is_not_durable_until_it_is_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 30)
    again = open_log(tmp_path)
    assert again.durable_offset == 0
    targets = again.sync_targets()
    assert targets is not None
    assert {segment.file.handle for segment in again.segments} <= set(targets.files)
    run_round([targets], again.fs, again.directory)
    again.mark_synced(targets)
    assert again.durable_offset == again.recovery_point == 30
    assert open_log(tmp_path).scanned_bytes == 0


def test_a_disk_is_synced_through_one_descriptor_that_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a failed write-back once to each open descriptor. A new descriptor gets no report about earlier
    failures."""
    fs, opened, system = OsFileSystem(), [], os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(path) or system(path, *rest))
    for _ in range(3):
        fs.sync_all(str(tmp_path))
    assert opened == [str(tmp_path)]
