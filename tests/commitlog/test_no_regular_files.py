"""Pipes and devices with names of ours: nobody waits for a pipe, and nobody reads a device."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.commitlog import __main__ as tool
from libs.commitlog.files.filesystem import OsFileSystem
from tests.commitlog.harness import append_some, open_log, sync

DEADLINE_S = 20


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "t-0"
    path.mkdir()
    log = open_log(path)
    append_some(log, 30)
    sync(log, resume_point=True)
    append_some(log, 3)
    log.close(clean=False)
    return path


@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("append", [False, True])
def test_it_is_not_opened_and_said_what_it_is(tmp_path: Path, kind: str, *, append: bool) -> None:
    path = tmp_path / "odd"
    ODD[kind](path)
    files = OsFileSystem()
    with pytest.raises(OSError, match=r"regular file|Is a directory") as refused:
        files.open_append(str(path), create=False) if append else files.open_read(str(path))
    assert refused.value.filename == str(path)


@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("pattern", ["*.log", "*.resume", "leader-epoch-checkpoint"])
def test_a_log_does_not_open_and_verify_says_why(
    partition: Path, kind: str, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = max(partition.glob(pattern), default=partition / pattern)
    victim.unlink(missing_ok=True)
    ODD[kind](victim)
    with pytest.raises(Exception, match=victim.name):
        open_log(partition)
    assert tool.main(["verify", str(partition)]) == tool.PROBLEMS
    assert victim.name in capsys.readouterr().out
