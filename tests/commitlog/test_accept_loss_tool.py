"""`python -m libs.commitlog verify` names what is missing, and `accept-loss` lets a partition open without it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.commitlog import __main__ as tool
from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LogDirectory
from tests.commitlog.harness import append_some, open_log, sync


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of a stopped node, with a segment missing in the middle."""
    root = tmp_path / "logs"
    directory = LogDirectory.open(str(root), OsFileSystem(), new_id=bytes(range(16)), node_id=1)
    path = Path(directory.create_partition("t", 0, bytes(range(16))))
    log = open_log(path)
    append_some(log, 60)
    sync(log, resume_point=True)
    directory.write_checkpoint(HIGH_WATERMARKS, {("t", 0): Entry(60)})
    directory.close()
    sorted(path.glob("*.log"))[1].unlink()
    return path


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_missing_file_is_named(partition: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([command, str(partition)]) == tool.PROBLEMS
    output = capsys.readouterr().out
    assert "is gone, it was synced: the partition does not open" in output
    assert output.count("is gone, it was synced") == 1


def test_an_accepted_loss_lets_the_log_open(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LogDamaged):
        open_log(partition)
    assert tool.main(["accept-loss", str(partition)]) == tool.CLEAN
    assert f"{partition}/accept-loss is written" in capsys.readouterr().out
    log = open_log(partition)
    assert log.log_end_offset == 60
    log.close(clean=True)
    assert not (partition / "accept-loss").exists()
    assert tool.main(["verify", str(partition)]) == tool.CLEAN


def test_the_loss_of_a_whole_directory_can_be_accepted(partition: Path) -> None:
    shutil.rmtree(partition)
    assert tool.main(["accept-loss", str(partition)]) == tool.CLEAN
    assert open_log(partition, committed_offset=60).log_end_offset == 60


@pytest.mark.parametrize("path", ["logs", "logs/t-0/deeper-0", "t-0", "logs/meta.properties", "nowhere/t-0"])
def test_a_directory_that_is_no_partition_is_left_alone(partition: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = partition.parent.parent / path
    existed = target.exists()
    assert tool.main(["accept-loss", str(target)]) == tool.USAGE
    assert target.exists() is existed
    assert capsys.readouterr().err


def sound(root: Path) -> Path:
    """Another partition in the directory, which lost nothing."""
    path = root / "t-1"
    path.mkdir()
    log = open_log(path)
    append_some(log, 60)
    sync(log, resume_point=True)
    append_some(log, 3)
    return path


def test_where_nothing_is_lost_there_is_nothing_to_accept(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sound(partition.parent)
    assert tool.main(["accept-loss", str(path)]) == tool.PROBLEMS
    assert "has lost nothing" in capsys.readouterr().err
    assert not (path / "accept-loss").exists()


def test_of_a_log_that_a_node_serves_too(partition: Path) -> None:
    path = sound(partition.parent)
    running = LogDirectory.open(str(partition.parent), OsFileSystem(), new_id=bytes(16), node_id=1)
    assert tool.main(["accept-loss", str(path)]) == tool.PROBLEMS
    assert tool.main(["accept-loss", str(partition)]) == tool.CLEAN
    running.close()


def shorten(path: Path) -> None:
    for point in path.glob("*.resume"):
        point.write_bytes(b"?")
    os.truncate(max(path.glob("*.log")), 0)
    second = sorted(path.glob("*.log"))[-2]
    os.truncate(second, second.stat().st_size // 2)


def flip(path: Path) -> None:
    segment = min(path.glob("*.log"))
    content = segment.read_bytes()
    segment.write_bytes(content[:70] + bytes([content[70] ^ 1]) + content[71:])


def empty(path: Path) -> None:
    for segment in path.glob("*.log"):
        segment.unlink()


@pytest.mark.parametrize("damage", [shorten, flip, empty])
def test_whatever_cannot_be_read_can_be_given_up(partition: Path, damage: Callable[[Path], None]) -> None:
    path = sound(partition.parent)
    damage(path)
    assert tool.main(["accept-loss", str(path)]) == tool.CLEAN
    assert open_log(path).log_end_offset >= 60


def test_a_consent_that_lies_in_a_sound_log_holds_for_one_opening(partition: Path) -> None:
    path = sound(partition.parent)
    (path / "accept-loss").touch()
    log = open_log(path)
    sync(log)
    assert not (path / "accept-loss").exists()
    assert log.log_end_offset == 63
