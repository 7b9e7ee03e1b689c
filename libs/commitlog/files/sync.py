"""Sync rounds: what must reach the disk before a log may call an offset durable.

The log's thread captures targets; a round runs in whatever thread may block; the log's thread is told which targets succeeded.
One round is in flight per disk, and may serve many logs. A failed sync is never retried: the directory retires.
"""

import errno
import posixpath
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from libs.commitlog.durable_files import FileWrite, begin_file, path_beside, replace_file
from libs.commitlog.errors import SyncFailed
from libs.commitlog.filesystem import FileSystem, OpenFile
from libs.commitlog.gapless import NotedSwap

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)  # only opening a file says so, and never a sync: it tells nothing of the disk
_NOT_OPENED = (*NO_DESCRIPTORS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM)
FEW_WRITES = 12  # beyond this, files beside logs share their syncs: each alone takes two
UNWRITTEN_MAX = 16 << 20
"""Each fdatasync of a file that grew commits the file system's journal and flushes the disk's cache: sixteen take 3 ms, 1 ms of
it CPU, where one syncfs takes 0.4 and 0.13. But that one also writes what others have left to be written at leisure. So much of
it delays a round by some tens of milliseconds, once, since little is left then for the next."""
FEW_FILES = 24  # beyond this, one syncfs is cheaper than so many fdatasyncs (500 dirty files: 20-95 ms against 2-9 ms)


@contextmanager
def syncing() -> Iterator[None]:
    """Around a sync outside of rounds: what fails within is final. Raises SyncFailed, or OSError if nothing was synced at all."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_OPENED:
            raise
        raise SyncFailed(error.errno, error.strerror, error.filename) from error


class Lineage:
    """The history of a log between two truncations. A round that was captured in one says nothing of the next: above all it must
    not leave a resume point there, which would vouch for records that are gone."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self.ended = False
        self._cut_to = 0
        self._next: Lineage | None = None

    def end(self) -> None:
        """By the log's thread. Waits for the small file that a round may be writing."""
        with self._writing:
            self.ended = True

    def continued(self, cut_to: int) -> "Lineage":
        """The one that follows, after a truncation that left so much."""
        self._cut_to, self._next = cut_to, Lineage()
        return self._next

    def lowest_end(self) -> int | None:
        """That truncations left since this one; None: there was none. Who copied the log beyond it copied what is gone."""
        ends, at = [], self
        while at._next is not None:
            ends.append(at._cut_to)
            at = at._next
        return min(ends, default=None)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """By a thread that changes a name or two: whether it goes on. It does not end before the block does."""
        with self._writing:
            yield not self.ended

    def write(self, fs: FileSystem, target: "SyncTargets") -> None:
        """By the round's thread."""
        for write in target.writes:
            with self._writing:
                if not self.ended:
                    replace_file(fs, write.path, write.content)
        self.remove(fs, target)

    def begin(self, fs: FileSystem, write: FileWrite) -> bool:
        """As the first half of a `write`, with nothing synced. False if there is nothing to go on with."""
        with self._writing:
            if not self.ended:
                begin_file(fs, write.path, write.content)
            return not self.ended

    def put_in_place(self, fs: FileSystem, write: FileWrite) -> None:
        """What was begun is synced."""
        with self._writing:
            if not self.ended:
                fs.rename(path_beside(write.path), write.path)

    def remove(self, fs: FileSystem, target: "SyncTargets") -> None:
        for path in target.removals:
            with self._writing:
                if not self.ended and fs.exists(path):
                    fs.unlink(path)


class Unsynced(Protocol):
    """Stays open for as long as it holds what no sync has covered (see `libs/commitlog/open_files.py`)."""

    def synced(self, version: int) -> None:
        """A round has covered all that was written when its version was this. By the log's thread."""
        ...


class SyncTargets(NamedTuple):
    """One log's share of a round. The order within a round: files, directories, writes, removals."""

    end_offset: int  # durable once the round is over
    files: tuple[OpenFile, ...]
    sealed: tuple[OpenFile, ...]  # those of the files that can change no more
    directories: tuple[str, ...]
    covered: tuple[tuple[Unsynced, int], ...]  # what the files hold for, each with its version when this was captured
    first_segment: int  # that a resume point of now would list
    lineage: Lineage
    epochs_version: int
    names_version: int
    writes: tuple[FileWrite, ...] = ()  # only true once the files are on disk
    removals: tuple[str, ...] = ()  # what the writes made useless
    resume_offset: int = -1  # the recovery point once the round is over; -1: stays
    resume_segment: int = -1  # the base of the segment that the resume point names
    listed: tuple[NotedSwap, ...] = ()  # swaps that the resume point knows of

    def without_writes(self) -> "SyncTargets":
        """What `sync_then_write` has done of these if it found no room: files and directories, and nothing else."""
        return self._replace(writes=(), removals=(), resume_offset=-1, resume_segment=-1, epochs_version=-1)


def run_round(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> None:
    """Blocks until all is on the disk that holds the path `disk`. Raises OSError: then nothing is known of any target."""
    if not sync_then_write(targets, fs, disk):
        raise OSError(errno.ENOSPC, f"{disk}: no room for what a round leaves beside the logs")


def sync_then_write(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> bool:
    """As `run_round`. False: all is durable, but there was no room, or no descriptor, for the writes: they only save work and are
    still owed.

    Nobody trusts the file that was begun: it was not renamed, and the next attempt begins another.
    """
    _sync(targets, fs, disk)
    try:
        _write(targets, fs, disk)
    except SyncFailed:
        raise
    except OSError as error:
        if error.errno not in (*NO_ROOM, *NO_DESCRIPTORS):
            raise
        return False
    return True


def _sync(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> None:
    directories = dict.fromkeys(directory for target in targets for directory in target.directories)
    files = [file for target in targets for file in target.files]
    if len(targets) > 1 and fs.unwritten_bytes() <= UNWRITTEN_MAX:
        fs.sync_all(disk)
    else:
        sync_files(files, fs, disk, tuple(directories))


def sync_files(files: Sequence[OpenFile], fs: FileSystem, disk: str, directories: Sequence[str] = ()) -> None:
    """One by one, or everything on the disk that holds the path `disk`. Raises OSError."""
    descriptors = dict.fromkeys(file.fd for file in files)
    if len(descriptors) + len(directories) > FEW_FILES:
        fs.sync_all(disk)
    else:
        for fd in descriptors:
            fs.fdatasync(fd)
        for directory in directories:
            fs.fsync_directory(directory)


def _write(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> None:
    if sum(len(target.writes) for target in targets) <= FEW_WRITES:
        for target in targets:
            target.lineage.write(fs, target)
        return
    split = [(target, len(target.writes) - (target.resume_offset >= 0)) for target in targets]
    _write_together([(target.lineage, write) for target, last in split for write in target.writes[:last]], fs, disk)
    # Resume points come last: they vouch for what was written before them.
    _write_together([(target.lineage, write) for target, last in split for write in target.writes[last:]], fs, disk)
    for target in targets:
        target.lineage.remove(fs, target)


def _write_together(writes: Sequence[tuple[Lineage, FileWrite]], fs: FileSystem, disk: str) -> None:
    """Two syncs for all of them. A file system that has no room for one is left none of those that were begun."""
    if not writes:
        return
    begun = []
    try:
        for lineage, write in writes:
            begun.append((lineage, write))
            if not lineage.begin(fs, write):
                del begun[-1]
        _sync_all(fs, disk)
    except OSError:
        for _, write in begun:
            with suppress(OSError):
                fs.unlink(path_beside(write.path))
        raise
    for lineage, write in begun:
        lineage.put_in_place(fs, write)
    _sync_all(fs, disk)


def _sync_all(fs: FileSystem, disk: str) -> None:
    """What it tells may be of a log's bytes, written meanwhile: no room is not to be taken for want of room for small files."""
    with syncing():
        fs.sync_all(disk)


def parent_directory(path: str) -> str:
    return posixpath.dirname(path) or "."
