"""The file system port: all disk access of the log goes through it, so that a simulated disk can replace it.

Open files are integers, as in the operating system. A mapping is read only where `is_cached` has just found its pages: an
unreadable sector, or a file that was cut, would end the process (ADR 23).
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Sequence
from typing import Protocol

from libs.commitlog.files.mappings import map_file, open_without_waiting
from libs.commitlog.files.writeback import DirtyBytes
from libs.commitlog.model.errors import DirectoryLocked

Buffer = bytes | bytearray | memoryview

CACHED_STEP = 131_072
"""The kernel's usual readahead: what is cached at both ends of a step is most likely cached between."""
_PAGE = 4096
_ONE_BYTE = (bytearray(1),)
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Mapping(Protocol):
    """A read-only mapping of a file. It ends with this object and the last view of it."""

    @property
    def view(self) -> memoryview: ...

    def __len__(self) -> int: ...


class FileSystem(Protocol):
    """The port to a disk. Every method may raise OSError, except `close`."""

    def open_read(self, path: str) -> int:
        """Opens a file to read. It never waits, and opens only regular files; so does `open_append`."""

    def reopen_read(self, fd: int) -> int:
        """Another, read-only descriptor of the same file, whatever its name is now."""

    def open_append(self, path: str, *, create: bool) -> int:
        """Opens a file for reading and positioned writing. `create`: the name must be free."""

    def open_cached(self, path: str) -> int | None:
        """Opens an existing file as `open_append` does. None if that would wait for the disk, as far as the kernel can tell."""

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def size_of(self, path: str) -> int: ...

    def identity(self, fd: int) -> tuple[int, int]:
        """The identity of the inode. No other inode has it while this one is open or has a name."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written, by the wall clock."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def pread(self, fd: int, length: int, position: int) -> bytes: ...

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | bytearray | None:
        """Reads from the page cache. None if it would wait for the disk, as far as the file system can tell, or if the file has
        less. The caller owns the buffer."""

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        """Whether the page cache holds both ends of the range, and a byte of each `CACHED_STEP` between them. False if the file
        system cannot tell, or if the file has less."""

    def map_read(self, fd: int, length: int) -> Mapping:
        """A read-only mapping of the file's first bytes. Touch only what `is_cached` has found in this turn: an unreadable
        page ends the process."""

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Writes, perhaps less than it was given, as the kernel may."""

    def truncate(self, fd: int, length: int) -> None: ...

    def reserve(self, fd: int, position: int, length: int) -> None:
        """Reserves space, so that writing there cannot run out of it. The size of the file does not change."""

    def fdatasync(self, fd: int) -> None: ...

    def fsync_directory(self, path: str) -> None: ...

    def sync_all(self, path: str) -> None:
        """Syncs everything on the disk that holds `path`."""

    def dirty_bytes(self) -> int:
        """An upper bound of the bytes that `sync_all` would have to write, of all files. Raises nothing."""

    def space(self, path: str) -> tuple[int, int]:
        """The (total, usable) bytes of the volume that holds `path`."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        """Locks a file until the descriptor is closed or the process dies. Raises DirectoryLocked."""


class OsFileSystem:
    """The operating system's files."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._syncfs = libc.syncfs
        self._fallocate = libc.fallocate
        self._fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        self._disks: dict[str, OpenFile] = {}
        self._dirty_bytes = DirtyBytes()

    def __reduce__(self) -> tuple[type["OsFileSystem"], tuple[()]]:
        """Pickles as a new object: a child process has its own."""
        return OsFileSystem, ()

    def open_read(self, path: str) -> int:
        return _open_regular(path, os.O_RDONLY)

    def reopen_read(self, fd: int) -> int:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)

    def open_append(self, path: str, *, create: bool) -> int:
        return _open_regular(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0))

    def open_cached(self, path: str) -> int | None:
        fd = open_without_waiting(path, os.O_RDWR | _OPEN_FLAGS)
        return _checked_regular(fd, path) if fd is not None else None

    def close(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def identity(self, fd: int) -> tuple[int, int]:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def pread(self, fd: int, length: int, position: int) -> bytes:
        return os.pread(fd, length, position)

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | bytearray | None:
        data = bytearray(length)
        try:
            got = os.preadv(fd, (data,), position, os.RWF_NOWAIT)
        except OSError:  # EAGAIN, or a file system that cannot tell. A read that waits will meet any other error again.
            return None
        # The read ended at the end of the cached range, or of the file.
        return data if got == length else None

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        last = position + length - 1
        try:
            if os.preadv(fd, _ONE_BYTE, last, os.RWF_NOWAIT) != 1:
                return False
            while position // _PAGE < last // _PAGE:
                os.preadv(fd, _ONE_BYTE, position, os.RWF_NOWAIT)
                position += CACHED_STEP
        except OSError:  # EAGAIN, or a file system that cannot tell
            return False
        return True

    def map_read(self, fd: int, length: int) -> Mapping:
        return map_file(fd, length)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(fd, buffers, position)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        # Not posix_fallocate: where the file system cannot reserve (EOPNOTSUPP), glibc writes zeros instead.
        keep_size = 1
        if self._fallocate(fd, keep_size, position, length) != 0:
            number = ctypes.get_errno()
            # EOPNOTSUPP, ENOSYS: this file system cannot reserve. As in Kafka, the log goes on without.
            if number not in (95, 38):
                raise OSError(number, os.strerror(number))

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        # The descriptor stays open. A new one would miss a failed write-back that was already reported to another syncfs, and
        # several nodes may share a disk.
        disk = self._disks.get(path)
        if disk is None:
            disk = self._disks[path] = OpenFile(self, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        if self._syncfs(disk.fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def dirty_bytes(self) -> int:
        return self._dirty_bytes.read()

    def space(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def list_directory(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directories(self, path: str) -> None:
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def lock(self, path: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Java's locks are POSIX's, which flock does not see: without this one, Kafka could open a directory beside us.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            os.close(fd)
            raise DirectoryLocked(f"{path} is held by another process") from error
        return fd


def _open_regular(path: str, flags: int) -> int:
    """Opens a regular file without blocking: a pipe of that name would wait for its other end. For a file, O_NONBLOCK has no
    meaning."""
    try:
        fd = os.open(path, flags | _OPEN_FLAGS, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that does not exist
            raise OSError(errno.ENXIO, "is no regular file", path) from error
        raise
    return _checked_regular(fd, path)


def _checked_regular(fd: int, path: str) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return fd


class OpenFile:
    """A descriptor that closes when its last holder drops it.

    A sync round runs in a thread while the log may drop, cut or delete the file. To close it then could let the round sync
    another file with the same number. So holders never close it; each of them drops it.
    """

    __slots__ = ("_filesystem", "fd", "mapping")

    def __init__(self, filesystem: FileSystem, fd: int) -> None:
        self._filesystem = filesystem
        self.fd = fd
        self.mapping: Mapping | None = None
        """A mapping for whoever reads through one. It goes with the descriptor, and takes none of its own."""

    def __del__(self) -> None:
        self._filesystem.close(self.fd)
