"""The operating system's files, with a hand on them: syncs can be held back, and operations can be made to fail."""

import errno
import os
import threading
import traceback
from collections.abc import Sequence

from libs.commitlog.files.filesystem import Buffer, OsFileSystem

PAGE = 4096


class HeldDisk(OsFileSystem):
    """`hold` keeps every fdatasync and syncfs waiting (in its thread) until `release`.

    `hold_reads` empties the page cache, and keeps all reads and openings that miss it waiting until `release`. Those of the event
    loop, which is the main thread, do not wait: `reads_on_loop` tells where they came from, and the fixture refuses them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cold_below: str | None = None  # None: everything is in the page cache
        self._cached: set[tuple[int, int]] = set()  # (inode, page) that came into it since
        self._names_too = True
        self._known: set[str] = set()  # paths whose inodes did
        self.unreadable = ""
        self.reads_on_loop: list[str] = []
        self._open = threading.Event()
        self._open.set()
        self._readable = threading.Event()
        self._readable.set()
        self.syncs_begun = 0
        self.syncs_refused = 0
        self.reads_begun = 0
        self.writes_refused = 0
        self.fail_writes: int | None = None
        self.fail_writes_below = "/"
        self.fail_syncs: int | None = None
        self.fail_syncs_below = "/"

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()
        self._readable.set()

    def release_syncs(self) -> None:
        self._open.set()

    def hold_reads(self, below: str = "/") -> None:
        """Of files below that directory."""
        self.evict(below)
        self._readable.clear()

    def evict(self, below: str = "/", *, names: bool = True) -> None:
        """Empties the page cache, and with `names` that of names and inodes."""
        self._cold_below = below
        self._names_too = names
        self._cached.clear()
        self._known.clear()

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if not self._holds(fd, length, position):
            path = os.readlink(f"/proc/self/fd/{fd}")
            self._wait_for_disk(path)
            if self.unreadable and path.endswith(self.unreadable):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._cached.update(self._pages(fd, length, position))
        return super().pread(fd, length, position)

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | bytearray | None:
        if not self._holds(fd, length, position):
            return None
        # not by RWF_NOWAIT, which may miss at times
        content = super().pread(fd, length, position)
        return content if len(content) == length else None

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        return self._holds(fd, length, position) and self.size(fd) >= position + length

    def open_append(self, path: str, *, create: bool) -> int:
        if self._names_too and self._is_cold(path) and path not in self._known and not create:
            self._wait_for_disk(path)
        self._known.add(path)
        return super().open_append(path, create=create)

    def open_cached(self, path: str) -> int | None:
        return (
            None
            if self._names_too and self._is_cold(path) and path not in self._known
            else super().open_append(path, create=False)
        )

    def _is_cold(self, path: str) -> bool:
        return self._cold_below is not None and path.startswith(self._cold_below)

    def _holds(self, fd: int, length: int, position: int) -> bool:
        if self._cold_below is None or not self._is_cold(os.readlink(f"/proc/self/fd/{fd}")):
            return True
        return self._cached.issuperset(self._pages(fd, length, position))

    def _pages(self, fd: int, length: int, position: int) -> set[tuple[int, int]]:
        inode = os.fstat(fd).st_ino
        return {(inode, page) for page in range(position // PAGE, (position + length - 1) // PAGE + 1)}

    def _wait_for_disk(self, path: str) -> None:
        if threading.current_thread() is threading.main_thread():
            self.reads_on_loop.append(f"{path}:\n{''.join(traceback.format_stack(limit=12))}")
            return
        self.reads_begun += 1
        self._readable.wait()

    def fdatasync(self, fd: int) -> None:
        self._sync(os.readlink(f"/proc/self/fd/{fd}"))
        super().fdatasync(fd)

    def sync_all(self, path: str) -> None:
        self._sync(path)
        super().sync_all(path)

    def _sync(self, path: str) -> None:
        self.syncs_begun += 1
        self._open.wait()
        if self.fail_syncs is not None and path.startswith(self.fail_syncs_below):
            self.syncs_refused += 1
            raise OSError(self.fail_syncs, errno.errorcode[self.fail_syncs])

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.fail_writes is not None and os.readlink(f"/proc/self/fd/{fd}").startswith(self.fail_writes_below):
            self.writes_refused += 1
            raise OSError(self.fail_writes, errno.errorcode[self.fail_writes])
        if self._cold_below is not None:
            self._cached |= self._pages(fd, sum(memoryview(buffer).nbytes for buffer in buffers), position)
        return super().pwritev(fd, buffers, position)


class OneBadDisk(HeldDisk):
    """Writes and syncs of files below `bad` fail."""

    def __init__(self) -> None:
        super().__init__()
        self.bad = ""
        self._paths: dict[int, str] = {}

    def open_append(self, path: str, *, create: bool) -> int:
        fd = super().open_append(path, create=create)
        self._paths[fd] = path
        return fd

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.bad and self._paths.get(fd, "").startswith(self.bad):
            raise OSError(errno.EIO, "bad disk")
        return super().pwritev(fd, buffers, position)
