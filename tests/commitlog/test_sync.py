"""What is durable, and when."""

import os
from pathlib import Path

import pytest

from libs.commitlog.filesystem import OsFileSystem
from libs.commitlog.sync import run_round
from tests.commitlog.harness import FaultyFileSystem, append_some, open_log, sync


def test_written_and_durable_are_two_numbers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    assert (log.log_end_offset, log.durable_offset) == (5, 0)
    targets = log.sync_targets()
    assert targets is not None
    append_some(log, 2)
    run_round([targets], log._fs, log.directory)
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
    run_round([targets], log._fs, log.directory)
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
    targets = [found for log in logs if (found := log.sync_targets()) is not None]
    fs.calls.clear()
    run_round(targets, fs, str(tmp_path))
    assert fs.calls == ["sync_all"]


def test_a_descriptor_outlives_the_log_that_drops_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    targets = log.sync_targets()
    assert targets is not None
    log.truncate_to(0)
    run_round([targets], log._fs, log.directory)  # the file is unlinked, its number not yet given to another


def test_a_recovered_tail_is_not_durable_until_it_is_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 30)
    again = open_log(tmp_path)
    assert again.durable_offset == 0
    targets = again.sync_targets()
    assert targets is not None
    assert {segment.file.handle for segment in again.segments} <= set(targets.files)
    run_round([targets], again._fs, again.directory)
    again.mark_synced(targets)
    assert again.durable_offset == again.recovery_point == 30
    assert open_log(tmp_path).scanned_bytes == 0


def test_a_disk_is_synced_through_one_descriptor_that_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells each descriptor once of a write-back that failed, and a new one of none that was told before."""
    fs, opened, system = OsFileSystem(), [], os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(path) or system(path, *rest))
    for _ in range(3):
        fs.sync_all(str(tmp_path))
    assert opened == [str(tmp_path)]
