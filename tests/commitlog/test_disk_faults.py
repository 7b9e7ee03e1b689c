"""Disks that are full, take part of a write, or fail: an append happens whole or not at all, and reads go on."""

import errno
import os
import threading
from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged, LogWriteError
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.index import OFFSET_ENTRY, IndexEntries
from libs.commitlog.segments.timestamp_search import HeaderWalk
from tests.commitlog.harness import (
    SMALL,
    FaultyFileSystem,
    QuickFileSystem,
    all_bytes,
    append,
    append_some,
    batch_at,
    open_log,
    read_batches,
    sync,
)


def test_a_full_disk_refuses_the_append_and_takes_the_next(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig())
    append_some(log, 3)
    before = all_bytes(log)
    fs.fail("pwritev", after=0)
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1)
    assert not refused.value.fatal
    assert all_bytes(log) == before
    fs.heal()
    append_some(log, 1)
    assert log.log_end_offset == 4
    assert open_log(tmp_path).log_end_offset == 4


def test_a_write_that_fails_half_way_is_cut_back(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig())
    append_some(log, 1)
    size = log.size
    fs.short_writes = 10
    fs.fail("pwritev", after=3)
    with pytest.raises(LogWriteError):
        append_some(log, 1)
    assert Path(log.active.file.path).stat().st_size == size


def test_short_writes_are_continued(tmp_path: Path) -> None:
    """KAFKA-4576, for writes."""
    for length in (1, 7, 60, 61, 100):
        fs = FaultyFileSystem()
        log = open_log(tmp_path / str(length), fs, LogConfig())
        fs.short_writes = length
        batches = [batch_at(i, size=50) for i in range(5)]
        append(log, *batches)
        assert all_bytes(log) == b"".join(batches)


def test_more_buffers_than_one_call_takes_are_written_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    batches = [batch_at(i) for i in range(2500)]
    append(log, *batches)
    assert all_bytes(log) == b"".join(batches)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
@pytest.mark.parametrize("operation", ["pwritev", "create", "truncate", "reserve"])
def test_a_disk_that_fills_up_at_any_call_leaves_the_log_as_it_was(tmp_path: Path, operation: str, error: int) -> None:
    for after in range(12):
        fs = FaultyFileSystem()
        path = tmp_path / str(after)
        log = open_log(path, fs, SMALL)
        append_some(log, 5, producer_id=1, producer_epoch=0, base_sequence=0)
        before, producers, epochs = all_bytes(log), dict(log.producers.entries), log.epochs.entries()
        fs.fail(operation, after=after, error=error)
        try:
            append_some(log, 1, together=20, producer_id=1, producer_epoch=0, base_sequence=0, epoch=3)
        except LogWriteError as refused:
            fs.heal()
            assert all_bytes(log) == before
            assert (log.log_end_offset, log.producers.entries, log.epochs.entries()) == (5, producers, epochs)
            if not refused.fatal:
                append_some(log, 30)
                assert log.log_end_offset == 35
        fs.heal()
        again = open_log(path)
        assert all_bytes(again).startswith(before)
        if log.log_end_offset > 5:
            assert all_bytes(again) == all_bytes(log)


def test_a_full_disk_in_the_middle_of_a_roll_is_not_fatal(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, SMALL)
    append_some(log, 5)
    for after in range(6):
        fs.fail("create", after=after)
        with pytest.raises(LogWriteError) as refused:
            append_some(log, 1, together=60)
        assert not refused.value.fatal
        fs.heal()
    append_some(log, 1, together=60)
    assert log.log_end_offset == 65


class FullAtTheRoll(QuickFileSystem):
    """A disk with no room for another segment. While an append meets that, `reader` begins to read; it goes on when the test
    says so."""

    def __init__(self) -> None:
        super().__init__()
        self.reader: threading.Thread | None = None
        self._has_read, self.goes_on = threading.Event(), threading.Event()

    def open_append(self, path: str, *, create: bool) -> int:
        if create and path.endswith(".log") and self.reader is not None:
            self.reader.start()
            assert self._has_read.wait(10)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open_append(path, create=create)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        content = super().pread(fd, length, position)
        if threading.current_thread() is self.reader:
            self._has_read.set()
            assert self.goes_on.wait(10)
        return content


def test_no_reader_takes_headers_of_an_append_that_was_undone_for_those_of_the_next(tmp_path: Path) -> None:
    """A thread looks for a timestamp meanwhile, and others look in the window that it has read."""
    fs = FullAtTheRoll()
    log = open_log(tmp_path, fs)
    append_some(log, 2)
    walk = HeaderWalk(log.active, None, 0, log.active.size, timestamp=5000, offset=0)
    found: list[object] = []
    fs.reader = threading.Thread(target=lambda: found.append(walk()))
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1, together=20)
    assert not refused.value.fatal
    fs.goes_on.set()
    fs.reader.join()
    fs.reader = None
    assert found == [None]
    append_some(log, 3, size=50)
    assert [batch.header.base_offset for batch in read_batches(log, 0)] == list(range(5))
    for offset in range(5):
        place = log.active.find(offset)
        assert place is not None
        assert place.base_offset == offset


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_roll_that_finds_no_descriptor_is_not_fatal(tmp_path: Path, error: int) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, SMALL)
    append_some(log, 5)
    fs.fail("create", after=0, error=error)
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1, together=60)
    assert not refused.value.fatal
    fs.heal()
    append_some(log, 1, together=60)
    assert log.log_end_offset == 65


def rolls_in_vain(fs: FaultyFileSystem, log: Log) -> list[str]:
    """A roll that fails: the indexes cannot be trimmed, since the disk says that it has no room."""
    truncations = 2 * 2  # the new indexes'
    fs.fail("truncate", after=truncations)
    with pytest.raises(OSError):
        log.roll()
    return sorted(name for name in os.listdir(log.directory) if name.endswith((".log", "index")))


def test_a_roll_in_vain_leaves_no_empty_file_that_would_hide_what_is_appended_next(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig(index_interval_bytes=150))
    append_some(log, 5)
    before = sorted(name for name in os.listdir(tmp_path) if name.endswith((".log", "index")))
    assert rolls_in_vain(fs, log) == before
    fs.heal()
    append_some(log, 5)
    sync(log, resume_point=True)
    whole = all_bytes(log)
    again = open_log(tmp_path)
    assert again.log_end_offset == 10
    assert all_bytes(again) == whole


def test_a_roll_in_vain_whose_file_cannot_be_removed_ends_the_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig(index_interval_bytes=150))
    append_some(log, 5)

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    fs.fail("truncate", after=4)
    monkeypatch.setattr(fs, "unlink", refuse)
    with pytest.raises(LogDamaged):
        log.roll()
    fs.heal()
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1)
    assert refused.value.fatal
    assert log.sync_targets() is None


def test_after_an_io_error_all_appends_are_refused_until_reopened(tmp_path: Path) -> None:
    """KAFKA-10778."""
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig())
    append_some(log, 2)
    before = all_bytes(log)
    fs.fail("pwritev", after=0, error=errno.EIO)
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1)
    assert refused.value.fatal
    fs.heal()
    with pytest.raises(LogWriteError):
        append_some(log, 1)
    assert all_bytes(log) == before
    again = open_log(tmp_path)
    append_some(again, 1)
    assert again.log_end_offset == 3


def test_a_failed_append_forgets_its_producers(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig())
    append_some(log, 1, producer_id=1, producer_epoch=0, base_sequence=0)
    known = dict(log.producers.entries)
    fs.fail("pwritev", after=0)
    batches = [
        batch_at(1, producer_id=1, producer_epoch=0, base_sequence=1),
        batch_at(2, producer_id=2, producer_epoch=0, base_sequence=0),
    ]
    with pytest.raises(LogWriteError):
        append(log, *batches)
    assert log.producers.entries == known


def test_a_failed_round_leaves_the_durable_offset_where_it_was(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    append_some(log, 10)
    fs.fail("fdatasync", after=0, error=errno.EIO)
    with pytest.raises(OSError):
        sync(log)
    assert log.durable_offset == 0


def test_nothing_vouches_for_a_log_before_the_log_is_synced(tmp_path: Path) -> None:
    """A resume point is written after every file of its round."""
    fs = FaultyFileSystem()
    for after in range(40):
        path = tmp_path / str(after)
        log = open_log(path, fs, SMALL)
        append_some(log, 10)
        sealed = len(log.segments) - 1
        fs.calls.clear()
        fs.fail("fdatasync", after=after, error=errno.EIO)
        try:
            sync(log, resume_point=True)
            return
        except OSError:
            fs.heal()
            if after < 3 * sealed + 3:
                assert not list(path.glob("*.resume"))
    raise AssertionError("no round came through")


def test_a_failed_truncation_stops_appends_until_reopened(tmp_path: Path) -> None:
    for after in range(8):
        fs = FaultyFileSystem()
        path = tmp_path / str(after)
        log: Log = open_log(path, fs, SMALL)
        append_some(log, 30)
        whole = all_bytes(log)
        fs.fail("any", after=after, error=errno.EIO)
        try:
            log.truncate_to(11)
        except LogWriteError:
            fs.heal()
            with pytest.raises(LogWriteError):
                append_some(log, 1)
        fs.heal()
        again = open_log(path)
        assert again.log_end_offset >= 11
        assert whole.startswith(all_bytes(again))


class FullForTimes(FaultyFileSystem):
    """A disk with room for the first block of a time index only."""

    def reserve(self, fd: int, position: int, length: int) -> None:
        if position + length > 4096 and os.readlink(f"/proc/self/fd/{fd}").endswith(".timeindex"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().reserve(fd, position, length)


def test_a_log_is_opened_after_a_crash_in_the_room_that_its_indexes_had(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=700)
    log = open_log(tmp_path, FullForTimes(), config)
    append_some(log, 12_000)  # all of the same time
    expected = all_bytes(log)
    again = open_log(tmp_path, FullForTimes(), config)
    assert again.scanned_bytes == len(expected)
    assert all_bytes(again) == expected


class NoReads(FaultyFileSystem):
    def pread(self, fd: int, length: int, position: int) -> bytes:
        raise AssertionError("it was read")


def test_the_newest_entry_is_known_after_a_flush_that_found_no_room(tmp_path: Path) -> None:
    """The next append asks for it on the event loop, which reads no file."""
    fs = NoReads()
    index = IndexEntries.create(fs, str(tmp_path / "index"), OFFSET_ENTRY, 1000)
    index.append(1, 10)
    index.flush()
    index.append(2, 20)
    index.append(3, 30)
    fs.fail("pwritev", after=0)
    with pytest.raises(OSError, match="No space left"):
        index.flush()
    assert (index.count, index.last) == (1, (1, 10))
