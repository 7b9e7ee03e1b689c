"""A sector that cannot be read, or a file that somebody cut short under a running log, is an error of that log. Never the end of
the process, as it would be under a mapping (SIGBUS)."""

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.partition_log.log import Log
from tests.commitlog.filled_logs import LARGE, PAGE, PAGES, filled
from tests.commitlog.harness import (
    QuickFileSystem,
    all_bytes,
    append_some,
    batch_at,
    offset_for_timestamp,
    open_log,
    read_batches,
    sync,
)
from tests.commitlog.harness import append as append_batches
from tests.commitlog.transactional import end, produce


class BadSectors(QuickFileSystem):
    """A file system that cannot read files whose names end with one of `bad`, nor write to them if `writes_too`."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: tuple[str, ...] = ()
        self.writes_too = False

    def _touch(self, fd: int) -> None:
        if self.bad and os.readlink(f"/proc/self/fd/{fd}").endswith(self.bad):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self._touch(fd)
        return super().pread(fd, length, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.writes_too:
            self._touch(fd)
        return super().pwritev(fd, buffers, position)


def offsets(log: Log, start: int) -> list[int]:
    return [batch.header.base_offset for batch in read_batches(log, start)]


def test_a_log_file_that_is_cut_short_is_damage_and_the_rest_is_served(tmp_path: Path) -> None:
    log = filled(tmp_path)
    victim, after = log.segments[1], log.segments[2]
    last = victim.next_offset - 1
    assert log.read(last, LARGE, log.log_end_offset, at_least_one_batch=True) is not None
    os.truncate(victim.file.path, PAGE)
    assert after.find(after.base_offset) is not None  # what was read last is in memory
    with pytest.raises((LogDamaged, OSError), match=f"{victim.base_offset:020d}.log"):
        log.read(last, 1, log.log_end_offset, at_least_one_batch=True)
    assert offsets(log, after.base_offset) == list(range(after.base_offset, log.log_end_offset))
    append_some(log, 1)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("slot", [1, -1], ids=["sealed", "active"])
@pytest.mark.parametrize("size", [0, 16])
def test_an_index_that_is_cut_short_in_use_is_made_again(tmp_path: Path, suffix: str, slot: int, size: int) -> None:
    log = filled(tmp_path)
    victim = log.segments[slot]
    end = log.log_end_offset
    for segment in log.segments:
        segment.find(end if segment is log.active else segment.next_offset - 1)
        segment.hint_for_timestamp(5000)
    os.truncate(victim.file.path.removesuffix(".log") + suffix, size)
    last = (end if victim is log.active else victim.next_offset) - 1
    position = victim.find(last)
    assert position is not None
    assert position.base_offset == last
    assert offset_for_timestamp(log, 1000, end) is not None
    append_batches(log, *(batch_at(end + i, size=60) for i in range(50)))
    sync(log, resume_point=True)
    assert offsets(log, 0) == list(range(end + 50))
    log.close(clean=True)
    assert offsets(open_log(tmp_path, config=PAGES, clean=True), 0) == list(range(end + 50))


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_a_sector_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path, suffix: str) -> None:
    fs = BadSectors()
    log = filled(tmp_path, fs)
    victim = log.segments[1]
    name = f"{victim.base_offset:020d}{suffix}"
    fs.bad = (name,)
    with pytest.raises(OSError, match=name) as failure:
        log.read(victim.base_offset + 5, LARGE, log.log_end_offset, at_least_one_batch=True)
    assert failure.value.errno == errno.EIO
    fs.bad = ()
    assert offsets(log, 0) == list(range(log.log_end_offset))


def test_a_sector_behind_what_a_committed_reader_gets_is_no_error_of_that_read(tmp_path: Path) -> None:
    fs = BadSectors()
    log = open_log(tmp_path, fs)
    aborted = produce(log, 1)
    end(log, 1, commit=False)
    while len(log.segments) == 1:
        append_some(log, 1)
    end_offset = log.log_end_offset
    piece = log.read(0, 200, end_offset, at_least_one_batch=True)
    assert piece is not None
    assert log.segments[1].find(end_offset - 1) is not None  # what was read last is in memory
    fs.bad = (f"{0:020d}.log",)
    assert [entry[:2] for entry in log.aborted_transactions(piece, 0, end_offset)] == [(1, aborted)]


def test_an_index_that_takes_no_entry_is_only_sparser(tmp_path: Path) -> None:
    fs = BadSectors()
    log = filled(tmp_path, fs)
    fs.bad, fs.writes_too = (f"{log.active.base_offset:020d}.index", f"{log.active.base_offset:020d}.timeindex"), True
    middle = log.log_end_offset
    append_batches(log, *(batch_at(middle + i, size=60, timestamp=2000 + i) for i in range(10)))
    fs.bad = ()
    append_batches(log, *(batch_at(middle + 10 + i, size=60, timestamp=3000 + i) for i in range(10)))
    sync(log)
    assert offsets(log, middle) == list(range(middle, middle + 20))
    result = offset_for_timestamp(log, 2003, log.log_end_offset)
    assert result is not None
    assert result.offset == middle + 3
    log.roll()
    sync(log)
    whole = all_bytes(log)
    assert all_bytes(open_log(tmp_path, config=PAGES)) == whole


CUT_IN_USE = """
import os, sys
from pathlib import Path
from tests.commitlog.filled_logs import LARGE, filled
log = filled(Path(sys.argv[1]))
victim = log.segments[1]
end = log.log_end_offset
log.read(victim.next_offset - 1, LARGE, end, at_least_one_batch=True)
for name in os.listdir(sys.argv[1]):
    os.truncate(os.path.join(sys.argv[1], name), 0)
for offset in range(0, end, 7):
    try:
        log.read(offset, 1, end, at_least_one_batch=True)
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_process_whose_files_are_cut_under_it_lives_on(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CUT_IN_USE, str(tmp_path)], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stderr}"
    assert set(done.stdout.split()) <= {"LogDamaged", "OSError"}
