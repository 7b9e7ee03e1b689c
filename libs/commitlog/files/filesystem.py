"""All that the log does to disks goes through here, so that a simulated disk can stand in for a real one.

Files are named by integers, as the operating system does. None is mapped: a disk that cannot read would end the process (ADR 12).
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

from libs.commitlog.errors import DirectoryLocked
from libs.commitlog.unwritten import UnwrittenBytes

Buffer = bytes | bytearray | memoryview


class FileSystem(Protocol):
    """Every method may raise OSError, except `close`."""

    def open_read(self, path: str) -> int:
        """Never waits, and opens nothing but a regular file; so does `open_append`."""

    def reopen_read(self, fd: int) -> int:
        """Another, read-only descriptor of the same file, whatever its name is now."""

    def open_append(self, path: str, *, create: bool) -> int:
        """For reading and positioned writing. `create`: the name must be free."""

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def size_of(self, path: str) -> int: ...

    def identity(self, fd: int) -> tuple[int, int]:
        """Of the inode: no other has it for as long as this one is open or has a name."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written, by the wall clock."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def pread(self, fd: int, length: int, position: int) -> bytes: ...

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | None:
        """None if it would wait for the disk, as far as can be told, or if there is less."""

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """May write less than it was given, as the kernel may."""

    def truncate(self, fd: int, length: int) -> None: ...

    def reserve(self, fd: int, position: int, length: int) -> None:
        """Makes sure that writing there cannot run out of space. Does not change the size."""

    def fdatasync(self, fd: int) -> None: ...

    def fsync_directory(self, path: str) -> None: ...

    def sync_all(self, path: str) -> None:
        """Everything on the disk that holds `path`."""

    def unwritten_bytes(self) -> int:
        """At most so much has `sync_all` to write, of whatever files. Raises nothing."""

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds `path`."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        """Holds the file until the descriptor is closed or the process dies. Raises DirectoryLocked."""


class OsFileSystem:
    """The operating system's files."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._syncfs = libc.syncfs
        self._fallocate = libc.fallocate
        self._fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        self._disks: dict[str, OpenFile] = {}
        self._unwritten = UnwrittenBytes()

    def __reduce__(self) -> tuple[type["OsFileSystem"], tuple[()]]:
        """In a child process it is another one."""
        return OsFileSystem, ()

    def open_read(self, path: str) -> int:
        return _open_regular(path, os.O_RDONLY)

    def reopen_read(self, fd: int) -> int:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)

    def open_append(self, path: str, *, create: bool) -> int:
        return _open_regular(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0))

    def close(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def identity(self, fd: int) -> tuple[int, int]:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def pread(self, fd: int, length: int, position: int) -> bytes:
        return os.pread(fd, length, position)

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | None:
        data = bytearray(length)
        try:
            got = os.preadv(fd, (data,), position, os.RWF_NOWAIT)
        except OSError:  # EAGAIN, or a file system that cannot tell; what else there is, a read that waits will say
            return None
        # It ends where what is cached ends, or the file.
        return bytes(data) if got == length else None

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(fd, buffers, position)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        # Not posix_fallocate: where the file system cannot reserve (EOPNOTSUPP), glibc's stand-in writes zeros itself.
        keep_size = 1
        if self._fallocate(fd, keep_size, position, length) != 0:
            number = ctypes.get_errno()
            if number not in (95, 38):  # EOPNOTSUPP, ENOSYS: this file system does not promise; as in Kafka, hope
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
        # Kept open: a new descriptor knows nothing of a failed write-back that somebody else's syncfs was already told of, and
        # several nodes may share a disk.
        disk = self._disks.get(path)
        if disk is None:
            disk = self._disks[path] = OpenFile(self, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        if self._syncfs(disk.fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def unwritten_bytes(self) -> int:
        return self._unwritten.read()

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

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
        except BlockingIOError as error:
            os.close(fd)
            raise DirectoryLocked(f"{path} is held by another process") from error
        return fd


def _open_regular(path: str, flags: int) -> int:
    """Nobody waits for the other end of a pipe that has a file's name. For a file, O_NONBLOCK means nothing."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise OSError(errno.ENXIO, "is no regular file", path) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return fd


class OpenFile:
    """A descriptor that closes when the last holder lets go.

    A sync round runs in a thread while the log may drop, cut or delete the file: closing it there and then could let the
    round sync another file that got the same number. So nobody closes; everybody lets go.
    """

    __slots__ = ("_filesystem", "fd")

    def __init__(self, filesystem: FileSystem, fd: int) -> None:
        self._filesystem = filesystem
        self.fd = fd

    def __del__(self) -> None:
        self._filesystem.close(self.fd)
