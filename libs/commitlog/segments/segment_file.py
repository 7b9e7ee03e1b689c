"""The `.log` files of this process, each with a number by which other processes name it (RPC file ranges, passed descriptors)."""

import errno
import itertools
import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

from libs.commitlog.files.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.files.open_files import OpenFiles
from libs.commitlog.files.page_cache import must_not_wait, off_loop
from libs.commitlog.model.errors import LogDamaged

_WINDOW_MIN, _WINDOW_MAX = 8192, 256 * 1024
_IOV_MAX = 1024
NO_WINDOW = (0, 0, b"")


class Readable(Protocol):
    file_id: int

    def open_readonly(self) -> int:
        """A new descriptor, which the caller closes. Raises OSError."""
        ...


class FileRegistry:
    """The numbers of this process's segment files, by which other processes name them. A removed file is not found.

    It also holds `open_files`, the bound on the files that all segments of this process hold open.
    """

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        self.open_files = open_files if open_files is not None else OpenFiles()
        self._files: WeakValueDictionary[int, Readable] = WeakValueDictionary()
        self.window: tuple[int, int, Buffer] = NO_WINDOW
        """The last window that was read for batch headers: the file's number, the position, and the bytes. Any thread may replace
        it."""
        self._numbers = itertools.count(1)  # logs open in several threads, and `next` is atomic

    def add(self, file: "SegmentFile") -> int:
        file_id = next(self._numbers)
        self._files[file_id] = file
        return file_id

    def name_index(self, index: Readable) -> int:
        """Numbers an index when it is first asked for."""
        if not index.file_id:
            index.file_id = next(self._numbers)
            self._files[index.file_id] = index
        return index.file_id

    def remove(self, file: "SegmentFile") -> None:
        """Removes a file, so that it is not found and not opened any more. Descriptors that were handed out stay valid.

        Rule: call it before the file's name goes to another file, or away: its number stands for the inode, not for the name.
        """
        file.retire()
        self._files.pop(file.file_id, None)

    def get(self, file_id: int) -> Readable | None:
        return self._files.get(file_id)


class SegmentFile:
    """A `.log` file. It opens when it is used, and closes when others were used more recently. No byte of its inode is written
    twice, so its pages may be sent at any later time.

    While it holds bytes that no sync has covered, it stays open: see `libs/commitlog/files/open_files.py`.
    """

    __slots__ = (
        "__weakref__",
        "_filesystem",
        "_identity",
        "_key",
        "_open_files",
        "_registry",
        "_unsynced",
        "base_offset",
        "file_id",
        "is_retired",
        "path",
        "version",
    )

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, registry: FileRegistry) -> None:
        self._filesystem = filesystem
        self._open_files = registry.open_files
        self._registry = registry
        self._key = self._open_files.new_key()
        self._unsynced: OpenFile | None = None
        self._identity: tuple[int, int] | None = None
        self.is_retired = False
        self.version = 0
        """A number that rises with every write."""
        self.path = path
        self.base_offset = base_offset
        self.file_id = registry.add(self)

    def __del__(self) -> None:
        self._open_files.forget(self._key)

    @property
    def handle(self) -> OpenFile:
        """The open file. Hold it for as long as its descriptor is used: another thread may make it close, and open another file
        with that number.

        Raises OSError: FileNotFoundError if it is retired or was replaced. Like all that reads or opens here, raises
        NotInPageCache within a lookup that must not wait.
        """
        return self._unsynced or self._open_files.file(self._key) or self._open()

    def _open(self) -> OpenFile:
        if not self.is_retired:
            handle = self._open_files.open(self._filesystem, self.path, self._key)
            identity = self._filesystem.identity(handle.fd)
            if self._identity is None:
                self._identity = identity
            if self._identity == identity and not self.is_retired:
                self._open_files.keep(self._key, handle)
                return handle
        raise FileNotFoundError(errno.ENOENT, f"{os.strerror(errno.ENOENT)}: it was removed or replaced", self.path)

    def create(self) -> None:
        handle = self._open_files.open(self._filesystem, self.path, self._key, create=True)
        self._identity = self._filesystem.identity(handle.fd)
        self._open_files.keep(self._key, handle)

    def retire(self) -> None:
        """Retires the file: its name belongs to another file now. Holders may read on."""
        self.is_retired = True

    def open_readonly(self) -> int:
        """A new descriptor, which the caller closes."""
        handle = self.handle
        return self._filesystem.reopen_read(handle.fd)

    # --- bytes

    def window(self, position: int, length: int, size: int) -> tuple[Buffer, int]:
        """Bytes that hold so many from `position` on, and their place in them; the file has `size`. Raises LogDamaged, OSError.

        The file is read, and not mapped: a window has all headers of most lookups, and costs one system call. The last window of
        any reader is kept, and a reader that continues gets a larger one.
        """
        file_id, start, content = self._registry.window
        if file_id == self.file_id and start <= position and position + length <= start + len(content):
            return content, position - start
        reads_on = file_id == self.file_id and 0 < position - start < 2 * len(content)
        window_size = min(2 * len(content), _WINDOW_MAX) if reads_on else _WINDOW_MIN
        content = self.read(min(max(window_size, length), size - position), position)
        if len(content) < length:
            raise LogDamaged(f"{self.path}: the file ends before position {position + length}")
        self._registry.window = self.file_id, position, content
        return content, 0

    def window_cached(self, position: int, length: int, size: int) -> tuple[Buffer, int] | None:
        """A window as of `window`, without waiting for a disk; None if it would have to. Raises OSError."""
        file_id, start, content = self._registry.window
        if file_id == self.file_id and start <= position and position + length <= start + len(content):
            return content, position - start
        handle = self.handle
        cached = self._filesystem.pread_cached(handle.fd, min(max(_WINDOW_MIN, length), size - position), position)
        if cached is None or len(cached) < length:
            return None
        self._registry.window = self.file_id, position, cached
        return cached, 0

    def read(self, length: int, position: int) -> bytes | bytearray:
        """Reads bytes, fewer only at the file's end. Raises OSError, which names the file."""
        handle = self.handle
        if must_not_wait():
            cached = self._filesystem.pread_cached(handle.fd, length, position)
            if cached is not None:
                return cached
        return off_loop(self.path, (handle, position, length), partial(self._read, handle, length, position))

    def _read(self, handle: OpenFile, length: int, position: int) -> bytes:
        try:
            return self._filesystem.pread(handle.fd, length, position)
        except OSError as error:
            raise OSError(error.errno, f"cannot be read at byte {position}: {error.strerror}", self.path) from error

    def is_cached(self, position: int, length: int) -> bool:
        """See `FileSystem.is_cached`. Raises OSError."""
        return self._filesystem.is_cached(self.handle.fd, position, length)

    def write(self, buffers: Sequence[Buffer], total_bytes: int, position: int) -> None:
        """Writes at the file's end. Raises OSError with nothing left behind, or LogDamaged if it cannot cut back."""
        was_synced, fd = not self.is_unsynced, self.for_writing().fd
        try:
            written = self._filesystem.pwritev(fd, buffers, position) if len(buffers) <= _IOV_MAX else 0
            if written != total_bytes:
                self._write_rest(fd, buffers, position, written)
        except OSError as error:
            try:
                self._filesystem.truncate(fd, position)
            except OSError as cut_error:
                raise LogDamaged(f"{self.path}: a failed write could not be cut back: {cut_error}") from error
            if was_synced:
                self.synced(self.version)
            raise

    def _write_rest(self, fd: int, buffers: Sequence[Buffer], position: int, written: int) -> None:
        """Writes the rest after a short write, or the buffers that did not fit into one call."""
        position += written
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        while rest:
            while rest and written >= len(rest[0]):
                written -= len(rest[0])
                del rest[0]
            if rest:
                rest[0] = rest[0][written:]
                written = self._filesystem.pwritev(fd, rest[:_IOV_MAX], position)
                if written <= 0:
                    raise OSError(errno.EIO, f"{self.path}: the disk took none of a write")
                position += written

    def cut(self, position: int) -> OpenFile:
        """Drops everything from `position` on; the caller syncs that. Raises OSError."""
        self._registry.window = NO_WINDOW
        handle = self.handle
        self._filesystem.truncate(handle.fd, position)
        return handle

    # --- what is not on disk yet

    @property
    def is_unsynced(self) -> bool:
        return self._unsynced is not None

    def for_writing(self) -> OpenFile:
        """The file for writing, open from now on until `synced`. Call it before each write."""
        if self._unsynced is None:
            self._unsynced = self._open_files.take(self._key)
            if self._unsynced is None:
                self._unsynced = self._open()
                self._open_files.forget(self._key)
        self.version += 1
        return self._unsynced

    def synced(self, version: int) -> None:
        """Notes that a round has covered all bytes written up to this version."""
        if version == self.version and self._unsynced is not None:
            handle, self._unsynced = self._unsynced, None
            self._open_files.keep(self._key, handle)
