"""A disk that refuses one call, whichever it is, or every call from there on: what was synced is there afterwards."""

import errno
import os
from collections.abc import Callable
from random import Random

import pytest

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import sync_then_write
from libs.commitlog.model.errors import DirectoryDamaged, LogDamaged, LogWriteError, SyncFailed
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from libs.commitlog.segments.segment_removal import remove_retired
from libs.wire.record_batches.batches import BatchHeader
from tests.commitlog.harness import SMALL, SetClock, append, batch_at
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

DIRECTORY = "/logs/t-0"
NEVER = 1 << 30
SYNCS = ("fdatasync", "fsync_directory", "sync_all")
WRITES = ("open_append", "pwritev", "truncate", "reserve", "rename", "unlink", "make_directories", "map_write")
READS = ("open_read", "reopen_read", "pread", "size", "size_of", "exists", "list_directory", "map_read", "modified_ms")
FULL_IS_SAID_BY = ("open_append", "pwritev", "truncate", "reserve", "rename", "make_directories", "map_write")


class Refusing:
    """A `FileSystem` that counts calls and refuses the one at `refuse_at`, and with `for_good` all that follow."""

    def __init__(self, disk: SimulatedDisk, calls: tuple[str, ...], error: int) -> None:
        self.disk = disk
        self.count, self.refused = 0, 0
        self.refuse_at, self.for_good = NEVER, False
        self._calls, self._error = calls, error

    def heal(self) -> None:
        self.refuse_at = NEVER

    def __getattr__(self, name: str) -> Callable[..., object]:
        method: Callable[..., object] = getattr(self.disk, name)
        return self._judged(name, method) if name in self._calls else method

    def _judged(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            self.count += 1
            if self.count > self.refuse_at if self.for_good else self.count == self.refuse_at + 1:
                self.refused += 1
                if name not in SYNCS:
                    raise OSError(self._error, os.strerror(self._error), name)
                self.disk.faults.fail(
                    "fdatasync" if name == "fdatasync" else name, self._error
                )  # and what it was to sync is lost
            return method(*arguments, **options)

        return call


class Story:
    """A storage node's work on a log, in short. `synced` must not be lost: offset → batch."""

    def __init__(self, fs: Refusing) -> None:
        self.fs = fs
        self.synced: dict[int, bytes] = {}
        self.start = 0
        self.errors: list[Exception] = []
        self._written: dict[int, bytes] = {}
        self._log: Log | None = None

    def play(self) -> None:
        """Ends early where a storage node gives the directory up."""
        for step in self._steps():
            try:
                step()
            except (OSError, LogWriteError, LogDamaged, DirectoryDamaged) as error:
                self.errors.append(error)
                if self._log is None or isinstance(error, SyncFailed) or (isinstance(error, LogWriteError) and error.fatal):
                    return
                self._check_reads()

    def _steps(self) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = [self._open]
        for _ in range(3):
            steps += [self._append, self._append_many, self._sync]
        steps += [lambda: self._sync(resume_point=True), self._append_many, self._sync, lambda: self._sync(resume_point=True)]
        steps += [self._shorten, self._append, self._sync, self._truncate, self._append_many, self._sync, self._close]
        return steps

    @property
    def log(self) -> Log:
        assert self._log is not None
        return self._log

    def _open(self) -> None:
        self._log = opened(self.fs)

    def _append(self, *, count: int = 1) -> None:
        offset = self.log.log_end_offset
        batches = [batch_at(offset + i, epoch=offset // 30, producer_id=1, producer_epoch=offset // 30) for i in range(count)]
        append(self.log, *batches)
        self._written |= {BatchHeader.at(batch).base_offset: bytes(batch) for batch in batches}

    def _append_many(self) -> None:
        self._append(count=13)  # more than a segment takes

    def _sync(self, *, resume_point: bool = False) -> None:
        targets = self.log.sync_targets(resume_point=resume_point)
        if targets is None:
            return
        try:
            whole = sync_then_write([targets], self.fs_as_seen, DIRECTORY)
        except OSError as error:
            raise SyncFailed(*error.args) from error
        self.log.mark_synced(targets if whole else targets.without_writes())
        self.synced |= {offset: batch for offset, batch in self._written.items() if offset < self.log.durable_offset}

    @property
    def fs_as_seen(self) -> FileSystem:
        return self.fs  # type: ignore[return-value]

    def _shorten(self) -> None:
        offset = min(20, self.log.durable_offset)
        self.log.delete_before(offset, self.log.durable_offset)
        self.start = offset  # as if the checkpoint were on disk
        self.log.advance_start()
        self._sync()
        retired = self.log.retire_segments()
        if retired is not None:
            remove_retired(self.fs_as_seen, retired.rename(self.fs_as_seen))

    def _truncate(self) -> None:
        cut = self.log.log_end_offset - 3
        self.synced = {offset: batch for offset, batch in self.synced.items() if offset < cut}
        self._written = {offset: batch for offset, batch in self._written.items() if offset < cut}
        self.log.truncate_to(cut)

    def _close(self) -> None:
        self.log.close(clean=True)

    def _check_reads(self) -> None:
        """The disk said no; what was synced is still served."""
        self.fs.refuse_at, asked = NEVER, self.fs.refuse_at
        check(self.log, self.synced, self.start, self.fs.disk)
        self.fs.refuse_at = asked


def opened(fs: object, start: int = 0) -> Log:
    return Log.open(
        DIRECTORY,
        "t",
        0,
        SMALL,
        fs,  # type: ignore[arg-type]
        registry=FileRegistry(),
        clock=SetClock(),
        checkpoints=LogCheckpoints(log_start_offset=start),
    )


def check(log: Log, synced: dict[int, bytes], start: int, disk: SimulatedDisk) -> None:
    for offset, batch in synced.items():
        if offset < start:
            continue
        piece = log.read(offset, len(batch), log.log_end_offset, at_least_one_batch=True)
        assert piece is not None, f"offset {offset} was synced and is gone"
        fd = piece.file.open_readonly()
        assert disk.pread(fd, len(batch), piece.position) == batch, f"offset {offset} is not what was synced"
        disk.close(fd)


def play(calls: tuple[str, ...], error: int, refuse_at: int, *, for_good: bool = False) -> Story:
    disk = SimulatedDisk(Sometimes())
    disk.make_directories("/logs")
    disk.fsync_directory("/")
    fs = Refusing(disk, calls, error)
    fs.refuse_at, fs.for_good = refuse_at, for_good
    story = Story(fs)
    story.play()
    return story


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize(
    ("calls", "error"),
    [
        (FULL_IS_SAID_BY, errno.ENOSPC),
        (WRITES, errno.EROFS),
        ((*WRITES, *SYNCS), errno.EIO),
        (READS, errno.EIO),
        (SYNCS, errno.EIO),
    ],
    ids=["full", "read-only", "writes-fail", "reads-fail", "syncs-fail"],
)
def test_whichever_call_the_disk_refuses_nothing_synced_is_lost(calls: tuple[str, ...], error: int, for_good: bool) -> None:
    total = play(calls, error, NEVER).fs.count
    assert total > 20
    heard = 0
    for refuse_at in range(total):
        story = play(calls, error, refuse_at, for_good=for_good)
        assert story.fs.refused
        heard += bool(story.errors)
        story.fs.heal()
        for disk in (story.fs.disk.crashed(Random(refuse_at)), story.fs.disk.as_left_by_a_kill()):
            log = opened(disk, story.start)
            check(log, story.synced, story.start, disk)
            append(log, batch_at(log.log_end_offset))
    assert heard > total // 4, "refusals were swallowed"


@pytest.mark.parametrize(
    ("calls", "error"),
    [(FULL_IS_SAID_BY, errno.ENOSPC), (WRITES, errno.EROFS), ((*WRITES, *SYNCS), errno.EIO), (READS, errno.EIO)],
    ids=["full", "read-only", "writes-fail", "reads-fail"],
)
def test_whichever_call_is_refused_at_an_opening_the_next_one_finds_everything(calls: tuple[str, ...], error: int) -> None:
    before = play((), errno.EIO, NEVER)
    left = before.fs.disk.crashed(Random(1))
    counting = Refusing(left.as_left_by_a_kill(), calls, error)
    opened(counting, before.start)
    assert counting.count
    for refuse_at in range(counting.count):
        fs = Refusing(left.as_left_by_a_kill(), calls, error)
        fs.refuse_at = refuse_at
        try:
            log = opened(fs, before.start)
        except OSError:
            pass
        else:
            check(log, before.synced, before.start, fs.disk)
        again = fs.disk.crashed(Random(refuse_at))
        check(opened(again, before.start), before.synced, before.start, again)
