"""Sync rounds: the files that must reach the disk before a log may call an offset durable.

The log's thread captures targets, a round runs in any thread that may block, and the log's thread learns which targets succeeded.
One round is in flight per disk, and may serve many logs. A failed sync is never retried: the directory retires.
"""

import errno
import posixpath
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from libs.commitlog.files.contiguity import NotedSwap
from libs.commitlog.files.durable_files import FileWrite, begin_file, path_beside, replace_file
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.model.errors import NO_ROOM, SyncFailed

# only the opening of a file has these errors, never a sync: they say nothing about the disk
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_NOT_OPENED = (*NO_DESCRIPTORS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM)
FEW_WRITES = 12  # with more, files beside logs share their syncs: alone, each takes two
DIRTY_BYTES_MAX = 16 << 20
"""The most dirty bytes with which a round uses one syncfs.

Each fdatasync of a file that grew commits the file system's journal and flushes the disk's cache. Sixteen of them take 3 ms, 1 ms
of it CPU, where one syncfs takes 0.4 and 0.13 ms. But a syncfs also writes what other programs left to be written later. This
much of it delays a round by some tens of milliseconds, once, since the next round finds little left.
"""
FEW_FILES = 24  # with more, one syncfs is cheaper than so many fdatasyncs (500 dirty files: 20-95 ms against 2-9 ms)


@contextmanager
def syncing() -> Iterator[None]:
    """A context for a sync outside of rounds: a failure within is final. Raises SyncFailed, or OSError if nothing was synced at
    all."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_OPENED:
            raise
        raise SyncFailed(error.errno, error.strerror, error.filename) from error


class Lineage:
    """The history of a log between two truncations. A round that was captured in one lineage is void in the next. Above all it
    must not leave a resume point there, which would vouch for records that are gone."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self.ended = False
        self._truncated_to = 0
        self._next: Lineage | None = None

    def end(self) -> None:
        """Ends the lineage; the log's thread calls it. It waits for a small file that a round may be writing."""
        with self._writing:
            self.ended = True

    def continued(self, truncated_to: int) -> "Lineage":
        """The next lineage, after a truncation to that end."""
        self._truncated_to, self._next = truncated_to, Lineage()
        return self._next

    def lowest_end(self) -> int | None:
        """The lowest end that truncations left since this lineage; None: there was none. A copy of the log beyond that end has
        records that are gone."""
        ends, at = [], self
        while at._next is not None:
            ends.append(at._truncated_to)
            at = at._next
        return min(ends, default=None)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """A context in which a thread changes a few names. Its value says whether the lineage still holds, and it cannot end
        before the context does."""
        with self._writing:
            yield not self.ended

    def write(self, fs: FileSystem, target: "SyncTargets") -> None:
        """Writes a file if the lineage still holds. The round's thread calls it."""
        for write in target.writes:
            with self._writing:
                if not self.ended:
                    replace_file(fs, write.path, write.content)
        self.remove(fs, target)

    def begin(self, fs: FileSystem, write: FileWrite) -> bool:
        """The first half of a `write`, which syncs nothing. False if the lineage has ended."""
        with self._writing:
            if not self.ended:
                begin_file(fs, write.path, write.content)
            return not self.ended

    def put_in_place(self, fs: FileSystem, write: FileWrite) -> None:
        """The second half of a `write`, once the begun file is synced."""
        with self._writing:
            if not self.ended:
                fs.rename(path_beside(write.path), write.path)

    def remove(self, fs: FileSystem, target: "SyncTargets") -> None:
        for path in target.removals:
            with self._writing:
                if not self.ended and fs.exists(path):
                    fs.unlink(path)


class Unsynced(Protocol):
    """A file that stays open while it has bytes that no sync has covered (see `libs/commitlog/files/open_files.py`)."""

    def synced(self, version: int) -> None:
        """Notes that a round has covered all bytes written up to this version. The log's thread calls it."""
        ...


class SyncTargets(NamedTuple):
    """The share of one log in a round. The order within a round: files, directories, writes, removals."""

    end_offset: int  # durable once the round is over
    files: tuple[OpenFile, ...]
    sealed: tuple[OpenFile, ...]  # the files among them that can change no more
    directories: tuple[str, ...]
    covered: tuple[tuple[Unsynced, int], ...]  # the owners of the files, each with its version at the capture
    first_segment: int  # the first segment that a resume point written now would list
    lineage: Lineage
    epochs_version: int
    names_version: int
    writes: tuple[FileWrite, ...] = ()  # only true once the files are on disk
    removals: tuple[str, ...] = ()  # files that the writes made useless
    resume_offset: int = -1  # the recovery point once the round is over; -1: stays
    resume_segment: int = -1  # the base of the segment that the resume point names
    listed: tuple[NotedSwap, ...] = ()  # swaps that the resume point knows of

    def without_writes(self) -> "SyncTargets":
        """The part that `sync_then_write` did if it found no room: only files and directories."""
        return self._replace(writes=(), removals=(), resume_offset=-1, resume_segment=-1, epochs_version=-1)


def run_round(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> None:
    """Runs a round. It blocks until all targets are on the disk that holds the path `disk`. Raises OSError: then the state of
    every target is unknown."""
    if not sync_then_write(targets, fs, disk):
        raise OSError(errno.ENOSPC, f"{disk}: no room for the small files of a round")


def sync_then_write(targets: Sequence[SyncTargets], fs: FileSystem, disk: str) -> bool:
    """Runs a round as `run_round` does. False: all logs are durable, but there was no room, or no descriptor, for the writes.
    These only save work, and are still due.

    A file that was begun is not trusted: it was not renamed, and the next attempt begins another.
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
    if len(targets) > 1 and fs.dirty_bytes() <= DIRTY_BYTES_MAX:
        fs.sync_all(disk)
    else:
        sync_files(files, fs, disk, tuple(directories))


def sync_files(files: Sequence[OpenFile], fs: FileSystem, disk: str, directories: Sequence[str] = ()) -> None:
    """Syncs files one by one, or everything on the disk that holds the path `disk`. Raises OSError."""
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
    # Resume points come last, since they vouch for the files that were written before them.
    _write_together([(target.lineage, write) for target, last in split for write in target.writes[last:]], fs, disk)
    for target in targets:
        target.lineage.remove(fs, target)


def _write_together(writes: Sequence[tuple[Lineage, FileWrite]], fs: FileSystem, disk: str) -> None:
    """Writes small files with two syncs for all of them. Where the file system has no room for one of them, none of those that
    were begun stays."""
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
    """Syncs the whole disk. An ENOSPC may be about a log's bytes that were written meanwhile, so it must not count as missing
    room for small files."""
    with syncing():
        fs.sync_all(disk)


def parent_directory(path: str) -> str:
    return posixpath.dirname(path) or "."
