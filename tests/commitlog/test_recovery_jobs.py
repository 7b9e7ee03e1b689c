"""A log that was recovered as a job of its own is as if its owner had recovered it, and has nothing left to read."""

import errno
import shutil
from pathlib import Path

import pytest

from libs.commitlog.model.errors import LogDamaged, RecoveryTooLarge, SyncFailed
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.recovery_job import OpenLogRequest, recover
from libs.commitlog.segments.segment import FileRegistry
from tests.commitlog.harness import SMALL, FaultyFileSystem, QuickFileSystem, SetClock, all_bytes, append_some, open_log, sync


def crashed(path: Path) -> Path:
    """A log with several segments after the resume point, and a torn end."""
    log = open_log(path)
    append_some(log, 20, producer_id=3, producer_epoch=0, base_sequence=0)
    sync(log, resume_point=True)
    append_some(log, 40, producer_id=4, producer_epoch=0, base_sequence=0, epoch=2)
    with open(log.active.file.path, "ab") as file:
        file.write(bytes(100))
    return path


def request_for(path: Path, fs: QuickFileSystem | None = None, **checkpoints: int) -> OpenLogRequest:
    return OpenLogRequest(str(path), "t", 0, SMALL, fs or QuickFileSystem(), LogCheckpoints(**checkpoints))  # type: ignore[arg-type]


def state(log: Log) -> object:
    segments = [
        (segment.base_offset, segment.size, segment.max_timestamp, segment.offset_index.count) for segment in log.segments
    ]
    return all_bytes(log), log.log_end_offset, log.producers.entries, log.epochs.entries(), segments


def test_afterwards_there_is_nothing_to_read_and_everything_is_durable(tmp_path: Path) -> None:
    path = crashed(tmp_path / "one")
    shutil.copytree(path, tmp_path / "two")
    expected = state(open_log(tmp_path / "two"))
    reports: list[object] = []
    recovered = recover(request_for(path), reports.append)
    assert (recovered.truncated_bytes, recovered.end_offset) == (100, 60)
    assert sum(reports) == recovered.read_bytes > 0  # type: ignore[arg-type]
    log = open_log(path, read_bytes_max=0)
    assert log.scanned_bytes == log.truncated_bytes == 0
    assert state(log) == expected
    assert log.durable_offset == log.recovery_point == 60


def test_a_log_with_more_to_read_than_it_may_is_left_as_it_is(tmp_path: Path) -> None:
    path = crashed(tmp_path / "one")
    before = {file.name: file.read_bytes() for file in path.glob("*.log")}
    with pytest.raises(RecoveryTooLarge) as much:
        open_log(path, read_bytes_max=1000)
    assert {file.name: file.read_bytes() for file in path.glob("*.log")} == before
    reports: list[int] = []
    log = open_log(path, read_bytes_max=much.value.total_bytes, on_read=reports.append)
    assert much.value.total_bytes == sum(reports) + 100
    assert log.log_end_offset == 60


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_wherever_a_job_ends_the_log_is_recovered_from_the_files_that_it_left(memory_path: Path, error: int) -> None:
    source = crashed(memory_path / "source")
    shutil.copytree(source, memory_path / "whole")
    expected = state(open_log(memory_path / "whole"))
    sync_failed = others_failed = 0
    for step in range(1000):
        path = shutil.copytree(source, memory_path / f"copy-{step}")
        fs = FaultyFileSystem()
        fs.fail("any", after=step, error=error)
        ended = False
        try:
            recover(request_for(path, fs), lambda _: None)
            ended = step >= len(fs.calls)
        except SyncFailed:
            assert fs.calls[-1] in ("fdatasync", "fsync_directory", "sync_all", "create", "open", "pwritev", "rename", "truncate")
            sync_failed += 1
        except OSError:
            others_failed += 1
        assert state(open_log(path)) == expected, (step, fs.calls[-1])
        shutil.rmtree(path)
        if ended:
            break
    else:
        raise AssertionError("it never ends")
    assert (sync_failed > 0) is (error != errno.EMFILE)
    assert others_failed > 0


def test_a_full_disk_leaves_it_to_be_read_again(tmp_path: Path) -> None:
    path = crashed(tmp_path / "one")
    fs = FaultyFileSystem()
    fs.fail("rename", after=0, error=errno.ENOSPC)
    recover(request_for(path, fs), lambda _: None)
    with pytest.raises(RecoveryTooLarge):
        open_log(path, read_bytes_max=0)
    assert open_log(path).log_end_offset == 60


def test_damage_before_the_recovery_point_is_said_as_by_its_owner(tmp_path: Path) -> None:
    path = crashed(tmp_path / "one")
    min(path.glob("*.log")).unlink()
    with pytest.raises(LogDamaged, match="is gone, it was synced"):
        recover(request_for(path), lambda _: None)


def test_a_job_gets_the_settings_that_its_owner_would_use(tmp_path: Path) -> None:
    path = crashed(tmp_path / "one")
    with pytest.raises(LogDamaged, match="offsets 60 to 99 were synced"):
        recover(request_for(path, committed_offset=100), lambda _: None)
    request = request_for(path, log_start_offset=10)
    log = request.open(FileRegistry(), SetClock())
    assert log.log_start_offset == 10
