"""The reads of a recovery: stretches of bounded size, whatever stands in a length field."""

import errno
import os
from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.opening import recovery
from tests.commitlog.harness import QuickFileSystem, all_bytes, append, append_some, batch_at, open_log


class Counting(QuickFileSystem):
    """A file system that counts reads, and may fail a read of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self.fail_at: int | None = None

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.longest = max(self.longest, length)
        if self.fail_at is not None and position <= self.fail_at < position + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(fd, length, position)


class Short(QuickFileSystem):
    """A file system whose reads return fewer bytes than asked for (KAFKA-4576)."""

    def pread(self, fd: int, length: int, position: int) -> bytes:
        return super().pread(fd, min(length, 7), position)


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "READ_BYTES", 500)
    monkeypatch.setattr(recovery, "LARGE_BYTES", 3000)


def test_batches_of_all_sizes_are_found_whatever_stretch_they_lie_in(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    for size in (1, 100, 430, 431, 500, 700, 2500, 5000, 20_000, 1, 1):
        append(log, batch_at(log.log_end_offset, size=size, producer_id=4, producer_epoch=0, base_sequence=log.log_end_offset))
    fs = Counting()
    again = open_log(tmp_path, fs, config=LogConfig())
    assert all_bytes(again) == all_bytes(log)
    assert again.truncated_bytes == 0
    assert again.producers.entries == log.producers.entries


def test_short_reads_are_continued(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 20)
    assert open_log(tmp_path, Short(), config=LogConfig()).log_end_offset == 20


def test_a_length_that_claims_too_much_costs_no_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 400)
    victim = list(log.active.walk(0, log.active.size))[100]
    with open(log.active.file.path, "r+b") as file:
        file.seek(victim.position + 8)
        file.write((20_000).to_bytes(4, "big"))
    fs = Counting()
    again = open_log(tmp_path, fs, config=LogConfig())
    assert again.log_end_offset == victim.base_offset
    assert fs.longest == 3000


def test_a_disk_that_cannot_read_is_an_error_that_names_the_file_and_cuts_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 50)
    size = log.active.size
    fs = Counting()
    fs.fail_at = 3000
    with pytest.raises(OSError, match="cannot be read at byte") as failure:
        open_log(tmp_path, fs, config=LogConfig())
    assert failure.value.errno == errno.EIO
    assert failure.value.filename == log.active.file.path
    assert os.path.getsize(log.active.file.path) == size
    assert open_log(tmp_path, config=LogConfig()).log_end_offset == 50
