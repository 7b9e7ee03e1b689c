"""A disk with a page cache, behind the `FileSystem` seam. It counts operations, and shows what a power cut would leave now.

`before` is called ahead of every operation that changes something: there a crash may be imagined (`crashed`, which leaves this
disk as it is) and other work of the same process may happen. Errors are asked for with `faults`.
"""

import errno
import os
from collections.abc import Callable, Sequence
from random import Random

from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.files.writeback import UNKNOWN_DIRTY_BYTES
from libs.commitlog.model.errors import DirectoryLocked
from tests.simulation.inodes import Fate, Link, Rename, SimDirectory, SimFile, Unlink, copied
from tests.simulation.sometimes import Sometimes

_NO_CHANCE = Random("replaced where syncs fail")
FIRST_FD = 1 << 20
"""No real descriptor has such a number: what goes past the seam fails, and closes nothing."""
MISSES = 5
"""Every fifth look into the page cache finds nothing."""
LOG_ROOM, OTHER_ROOM = 32 * 1024, 2 * 1024


class Faults:
    """`fail("pwritev", after=2)`: the third call from now fails, once. A `half` write takes part, and what is left fails."""

    def __init__(self) -> None:
        self._planned: dict[str, tuple[int, int, bool]] = {}

    def fail(self, operation: str, error: int, *, after: int = 0, half: bool = False) -> None:
        self._planned[operation] = (after, error, half)

    def heal(self) -> None:
        self._planned.clear()

    def is_due(self, operation: str) -> bool:
        """Whether the next call of the operation fails."""
        return operation in self._planned and not self._planned[operation][0]

    def due(self, operation: str) -> tuple[int, bool] | None:
        if operation not in self._planned:
            return None
        left, error, half = self._planned[operation]
        if left:
            self._planned[operation] = (left - 1, error, half)
            return None
        del self._planned[operation]
        return error, half


class SimulatedMapping:
    """A read-only mapping of a file's first bytes. What is read beyond the end of the file kills the process."""

    def __init__(self, file: SimFile, length: int) -> None:
        self._file, self._length = file, length

    def __len__(self) -> int:
        return self._length

    @property
    def view(self) -> memoryview:
        return memoryview(bytes(self._file.cache[: min(self._length, self._file.size)]))


class SimulatedDisk:
    """Implements `FileSystem`. Absolute paths; the root exists."""

    def __init__(self, sometimes: Sometimes, *, page_size: int = 4096, story: list[str] | None = None) -> None:
        self.root = SimDirectory()
        self.page_size = page_size
        self.sometimes = sometimes
        self.story = story
        self.faults = Faults()
        self.before: Callable[[str], None] | None = None
        self.on_read: Callable[[Callable[[], str]], None] | None = None
        """Told of each read that would wait for the disk if the page cache lacked the bytes. It may ask for the path."""
        self.random = _NO_CHANCE  # for what a failed fsync leaves
        self.operations = 0
        self.dead: BaseException | None = None  # whoever works on it has ended: what it still tries does not happen
        self._doom: tuple[int, type[BaseException]] | None = None
        self._others_work = False
        self.lies = False  # a sync has failed: the page cache counts as clean what is not on the disk
        self._open: dict[int, SimFile] = {}
        self._next_fd = FIRST_FD
        self._asked = 0
        self._mapped: list[SimFile] = []

    # --- what is not part of the seam: crashes

    def crashed(self, random: Random, story: list[str] | None = None) -> "SimulatedDisk":
        """A disk as the next boot finds it if the power goes now. Everything on it is durable."""
        fate = Fate(random, self.page_size, self.sometimes, story)
        disk = SimulatedDisk(self.sometimes, page_size=self.page_size, story=self.story)
        disk.random = random
        disk.root = self._survivor(self.root, fate, "")
        return disk

    def keeps(self, path: str, end: int) -> bool:
        """Whether every power cut leaves what comes before `end` of this file, under this name."""
        directory = self.root
        *folders, name = path.strip("/").split("/")
        for folder in folders:
            found = directory.entries.get(folder)
            if not isinstance(found, SimDirectory) or directory.durable.get(folder) is not found:
                return False
            directory = found
        file = directory.entries.get(name)
        return isinstance(file, SimFile) and directory.durable.get(name) is file and file.keeps(end)

    def as_left_by_a_kill(self) -> "SimulatedDisk":
        """The disk as the next process finds it if this one is killed now: all writes, durable or not."""
        disk = SimulatedDisk(self.sometimes, page_size=self.page_size, story=self.story)
        disk.root = copied(self.root, {})
        return disk

    def _survivor(self, directory: SimDirectory, fate: Fate, path: str) -> SimDirectory:
        found = SimDirectory()
        for name, inode in directory.crashed(fate, path).items():
            if isinstance(inode, SimDirectory):
                found.durable[name] = self._survivor(inode, fate, f"{path}/{name}")
            else:
                found.durable[name] = SimFile(inode.crashed(fate, f"{path}/{name}"), _room(name))
        found.entries = dict(found.durable)
        return found

    def kill_after(self, operations: int, reason: type[BaseException]) -> Callable[[], None]:
        """Kills the present process after so many operations. The result begins the next process."""
        self._doom = operations, reason

        def next_process() -> None:
            self._doom = None

        return next_process

    def discard(self, reason: BaseException) -> None:
        """Another disk has taken its place: nothing happens on it any more, and it takes no room."""
        self.dead = reason
        self.root = SimDirectory()
        self._open.clear()
        self._mapped.clear()

    def killed(self) -> None:
        """The process dies, the page cache lives: descriptors and locks go."""
        self.dead = self._doom = None
        self._others_work = False
        for file in self._open.values():
            file.locked_by = None
        self._open.clear()
        self._look_at_mappings()
        self._mapped.clear()
        self.before = None
        self.faults.heal()

    # --- descriptors

    def open_read(self, path: str) -> int:
        return self._opened(self._file(path))

    def reopen_read(self, fd: int) -> int:
        return self._opened(self._open[fd])

    def open_append(self, path: str, *, create: bool) -> int:
        if not create:
            return self._opened(self._file(path))
        directory, name = self._parent(path)
        if name in directory.entries:
            raise _error(errno.EEXIST, path)
        self._enter("create", path)
        self._fail_if_due("create", path)
        file = SimFile(b"", _room(name))
        directory.change(Link(name, file))
        return self._opened(file)

    @property
    def descriptors(self) -> int:
        """The number of open ones."""
        return len(self._open)

    def file_of(self, fd: int) -> SimFile:
        """The inode, to be passed to another process."""
        return self._open[fd]

    def adopt(self, file: SimFile) -> int:
        """A descriptor of an inode that another process passed; it may be on another disk, or deleted."""
        return self._opened(file)

    def open_cached(self, path: str) -> int | None:
        self._asked += 1
        return self._opened(self._file(path)) if self._asked % MISSES else None

    def close(self, fd: int) -> None:
        file = self._open.pop(fd, None)
        if file is not None and file.locked_by == fd:
            file.locked_by = None

    def lock(self, path: str) -> int:
        directory, name = self._parent(path)
        fd = self.open_append(path, create=name not in directory.entries)
        file = self._open[fd]
        if file.locked_by is not None:
            self.close(fd)
            raise DirectoryLocked(f"{path} is held by another process")
        file.locked_by = fd
        return fd

    # --- files

    def size(self, fd: int) -> int:
        return self._open[fd].size

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def size_of(self, path: str) -> int:
        return self._file(path).size

    def identity(self, fd: int) -> tuple[int, int]:
        return 0, id(self._open[fd])

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if self.on_read is not None:
            self.on_read(lambda: self._name_of(fd))
        return self.page_cache(fd, length, position)

    def page_cache(self, fd: int, length: int, position: int) -> bytes:
        """The bytes, for who knows that they are in the page cache, or waits for them elsewhere: the kernel that sends a file."""
        self._fail_if_due("pread", str(fd))
        file = self._open[fd]
        return bytes(file.cache[position : min(position + length, file.size)])

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | None:
        if not self.is_cached(fd, position, length):
            return None
        file = self._open[fd]
        return bytes(file.cache[position : position + length])

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        self._asked += 1
        # The read that is due to fail is one of a thread, and so are some others.
        return self._asked % MISSES != 0 and not self.faults.is_due("pread") and position + length <= self._open[fd].size

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        self._enter("pwritev", fd, position, len(data))
        fault = self.faults.due("pwritev")
        if fault is not None and fault[1]:
            data = data[: len(data) // 2]
            self.faults.fail("pwritev", fault[0])  # the rest does not fit
            self.sometimes("short write")
        elif fault is not None:
            raise _error(fault[0], str(fd))
        self._open[fd].write(position, data)
        return len(data)

    def truncate(self, fd: int, length: int) -> None:
        self._enter("truncate", fd, length)
        self._fail_if_due("truncate", str(fd))
        self._open[fd].resize(length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._fail_if_due("reserve", str(fd))

    def map_read(self, fd: int, length: int) -> "SimulatedMapping":
        file = self._open[fd]
        assert length <= file.size, "a mapping beyond the end of its file: SIGBUS"
        return SimulatedMapping(file, length)

    def map_write(self, fd: int, length: int) -> memoryview:
        file = self._open[fd]
        assert length <= file.size, "a mapping beyond the end of its file: SIGBUS"
        if file.mapped is None:
            self._mapped.append(file)
        file.map_write()
        return memoryview(file.cache)[:length]

    def fdatasync(self, fd: int) -> None:
        self._enter("fdatasync", fd)
        file = self._open[fd]
        if self.faults.due("fdatasync") is not None:
            self._fail_sync([file], str(fd))
        file.sync()

    def sync_all(self, path: str) -> None:
        self._enter("syncfs", path)
        self.sometimes("syncfs instead of fdatasync")
        if self.faults.due("fdatasync") is not None:
            self._fail_sync([inode for inode in _reachable(self.root) if isinstance(inode, SimFile)], path)
        for inode in _reachable(self.root):
            inode.sync()

    def dirty_bytes(self) -> int:
        return UNKNOWN_DIRTY_BYTES if self.operations % 2 else 0

    def _fail_sync(self, files: list[SimFile], path: str) -> None:
        self.lies = True
        served = self.random.random() < 0.5
        for file in files:
            cached = bytes(file.cache[: file.size])
            file.fail_sync(Fate(self.random, self.page_size, self.sometimes), served=served)
            lost = cached != file.durable
            self.sometimes("failed fsync served what it dropped", served and lost)
            self.sometimes("failed fsync dropped data", lost)
        raise _error(errno.EIO, path)

    # --- names

    def fsync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self._enter("fsync directory", path)
        self._fail_if_due("fsync_directory", path)
        directory.sync()

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return name in directory.entries

    def list_directory(self, path: str) -> list[str]:
        return list(self._directory(path).entries)

    def make_directories(self, path: str) -> None:
        directory, walked = self.root, ""
        for name in path.strip("/").split("/"):
            walked += "/" + name
            if name not in directory.entries:
                self._enter("mkdir", walked)
                directory.change(Link(name, SimDirectory()))
            found = directory.entries[name]
            if not isinstance(found, SimDirectory):
                raise _error(errno.EEXIST, walked)
            directory = found

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        target_directory, target_name = self._parent(target)
        assert directory is target_directory, "renames between directories are not simulated"
        if name not in directory.entries:
            raise _error(errno.ENOENT, source)
        self._enter("rename", source, target_name)
        self._fail_if_due("rename", source)
        directory.change(Rename(name, target_name))

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        if not isinstance(directory.entries.get(name), SimFile):
            raise _error(errno.ENOENT if name not in directory.entries else errno.EISDIR, path)
        self._enter("unlink", path)
        directory.change(Unlink(name))

    def remove_tree(self, path: str) -> None:
        for name, inode in list(self._directory(path).entries.items()):
            if isinstance(inode, SimDirectory):
                self.remove_tree(f"{path}/{name}")
            else:
                self.unlink(f"{path}/{name}")
        self._enter("rmdir", path)
        directory, name = self._parent(path)
        directory.change(Unlink(name))

    # --- within

    def _enter(self, operation: str, *what: object) -> None:
        """An operation boundary."""
        if self.dead is not None:
            raise self.dead
        if self._doom is not None and not self._others_work:
            left, reason = self._doom
            if not left:
                raise reason
            self._doom = left - 1, reason
        self.operations += 1
        self._look_at_mappings()
        if self.before is not None:
            outer, self._others_work = self._others_work, True
            self.before(operation)
            self._others_work = outer
        if self.story is not None:
            said = [self._name_of(what[0]), *map(str, what[1:])] if isinstance(what[0], int) else map(str, what)
            self.story.append(f"  {operation} {' '.join(said)}")

    def _look_at_mappings(self) -> None:
        for file in self._mapped:
            file.note_mapped()

    def _fail_if_due(self, operation: str, path: str) -> None:
        fault = self.faults.due(operation)
        if fault is not None:
            raise _error(fault[0], path)

    def _name_of(self, fd: int) -> str:
        file = self._open[fd]
        return _path_of(file, self.root, "") or "(unlinked)"

    def _opened(self, file: SimFile) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = file
        return self._next_fd

    def _parent(self, path: str) -> tuple[SimDirectory, str]:
        head, _, name = path.rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> SimDirectory:
        directory = self.root
        for name in path.split("/"):
            if name:
                found = directory.entries.get(name)
                if found is None:
                    raise _error(errno.ENOENT, path)
                if not isinstance(found, SimDirectory):
                    raise _error(errno.ENOTDIR, path)
                directory = found
        return directory

    def _file(self, path: str) -> SimFile:
        directory, name = self._parent(path)
        found = directory.entries.get(name)
        if found is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(found, SimFile):
            raise _error(errno.EISDIR, path)
        return found


def _reachable(directory: SimDirectory) -> list[SimFile | SimDirectory]:
    found: list[SimFile | SimDirectory] = [directory]
    for inode in directory.entries.values():
        if isinstance(inode, SimDirectory):
            found += _reachable(inode)
        else:
            found.append(inode)
    return found


def _path_of(file: SimFile, directory: SimDirectory, path: str) -> str | None:
    for name, inode in directory.entries.items():
        if inode is file:
            return path + name
        if isinstance(inode, SimDirectory) and (found := _path_of(file, inode, f"{path}{name}/")) is not None:
            return found
    return None


def _room(name: str) -> int:
    return LOG_ROOM if name.endswith(".log") else OTHER_ROOM


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
