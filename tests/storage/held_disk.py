"""The operating system's files, with a hand on them: syncs can be held back, and operations can be made to fail."""

import errno
import os
import threading
from collections.abc import Sequence

from libs.commitlog.files.filesystem import Buffer, OsFileSystem
from libs.wire.record_batches.batches import HEADER_SIZE


class HeldDisk(OsFileSystem):
    """`hold` keeps every fdatasync and syncfs waiting (in its thread) until `release`; so does `hold_reads` for whole batches."""

    def __init__(self) -> None:
        super().__init__()
        self._open = threading.Event()
        self._open.set()
        self._readable = threading.Event()
        self._readable.set()
        self.syncs_begun = 0
        self.syncs_refused = 0
        self.reads_begun = 0
        self.writes_refused = 0
        self.fail_writes: int | None = None
        self.fail_syncs: int | None = None
        self.fail_syncs_below = "/"

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()
        self._readable.set()

    def release_syncs(self) -> None:
        self._open.set()

    def hold_reads(self) -> None:
        self._readable.clear()

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if not self._readable.is_set() and length > HEADER_SIZE:
            self.reads_begun += 1
            assert threading.current_thread() is not threading.main_thread(), "a read that may be slow, on the event loop"
            self._readable.wait()
        return super().pread(fd, length, position)

    def pread_cached(self, fd: int, length: int, position: int) -> bytes | None:
        return super().pread_cached(fd, length, position) if self._readable.is_set() else None

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
        if self.fail_writes is not None:
            self.writes_refused += 1
            raise OSError(self.fail_writes, errno.errorcode[self.fail_writes])
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
