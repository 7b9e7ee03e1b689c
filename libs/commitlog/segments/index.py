"""Sparse indexes of a segment, in Kafka's files: offset to position (8 bytes an entry), timestamp to offset (12 bytes).

The active segment's indexes are preallocated. At roll and close they are trimmed to their entries. Space is reserved a chunk
ahead of the entries, so that a full disk is an error of `make_room`, before the batches are written. An index without entries
reserves and opens nothing, since most of ten thousand partitions are idle.

Lookups that must not wait for a disk read a sealed index through a mapping, a block at a time. Each block is touched only after
the kernel said that it is in the page cache: an unreadable sector, or a file that was cut, would end the process (ADR 23). A
thread reads the others, and meets any error.
"""

import errno
import struct
from functools import partial

from libs.commitlog.files.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.files.open_files import NO_BLOCK, OpenFiles
from libs.commitlog.files.page_cache import must_not_wait, off_loop
from libs.commitlog.segments.segment_file import SegmentFile

OFFSET_ENTRY = struct.Struct(">ii")  # last offset of a batch - base, position of the batch
TIME_ENTRY = struct.Struct(">qi")  # greatest timestamp so far, last offset of its batch - base
RELATIVE_OFFSET_MAX = 0x7FFF_FFFF
"""The largest offset from a segment's base that an entry has room for."""
INTERVAL_BYTES_MAX = 128 << 10
"""The most bytes between two entries, whatever `index.interval.bytes` says. They have some 2,000 headers of the smallest batches,
whose walk takes 2 ms."""
_RESERVED_MIN, _RESERVED_MAX = 4096, 65_536
_CAPACITY_MIN = 2  # one entry, and the one that sealing adds to the time index
_BLOCK_BYTES = 4096  # a search ends in one block, which is read at once


class IndexTruncated(FileNotFoundError):
    """An index file that was cut short while it was in use. It must be rebuilt from the log."""


class IndexEntries:
    """An index file: entries of fixed size, ascending, appended and then flushed together.

    One thread uses it. The file closes when others were used more recently, and opens with the next lookup. Entries that no sync
    has covered hold it open (see `libs/commitlog/files/open_files.py`).
    """

    __slots__ = (
        "__weakref__",
        "_entry",
        "_found",
        "_fs",
        "_key",
        "_last",
        "_last_written",
        "_open_files",
        "_owner",
        "_pending",
        "_preallocated",
        "_ragged",
        "_reserved",
        "_unsynced",
        "capacity",
        "count",
        "file_id",
        "path",
        "version",
    )

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        entry: struct.Struct,
        open_files: OpenFiles,
        *,
        count: int,
        capacity: int,
        ragged: bool = True,
        owner: SegmentFile | None = None,
    ) -> None:
        """The index of the first `count` entries of an existing file, which is not opened. `ragged`: the file may have more
        entries, which do not count.

        `owner`: the log file that the index belongs to. Once that is retired, the path is another segment's, and is not opened
        again.
        """
        self._fs, self.path, self._entry, self._open_files = fs, path, entry, open_files
        self._key = open_files.new_key()
        self._owner = owner
        self.count = count
        self.capacity = max(capacity, count)
        self._reserved = count * entry.size
        self._preallocated, self._ragged = False, ragged
        self._unsynced: OpenFile | None = None
        self._pending: list[bytes] = []
        self._last: tuple[int, int] | None = None
        self._last_written: tuple[int, int] | None = None
        self._found: tuple[int, tuple[int, int]] | None = None  # the slot and entry that a mapped search ended with
        self.version = 0
        """A number that rises with every change of the file."""
        self.file_id = 0
        """See `FileRegistry.name_index`."""

    def __del__(self) -> None:
        self._open_files.forget(self._key)

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        path: str,
        entry: struct.Struct,
        max_bytes: int,
        open_files: OpenFiles | None = None,
        owner: SegmentFile | None = None,
    ) -> "IndexEntries":
        """Creates an empty index that is ready for entries. An older file of that name belonged to another segment, and is
        removed."""
        open_files = open_files if open_files is not None else OpenFiles()
        if fs.exists(path):
            fs.unlink(path)
        index = cls(fs, path, entry, open_files, count=0, capacity=capacity_of(max_bytes, entry), owner=owner)
        file = open_files.open(fs, path, index._key, create=True)
        index._preallocate(file)
        return index

    @property
    def unsynced(self) -> OpenFile | None:
        """The file that a sync round must sync; None if there is nothing to do."""
        return self._unsynced

    @property
    def _file(self) -> OpenFile:
        if self._unsynced is not None:
            return self._unsynced
        if self._owner is not None and self._owner.is_retired:
            raise FileNotFoundError(errno.ENOENT, "its segment was removed or replaced", self.path)
        try:
            return self._open_files.open(self._fs, self.path, self._key)
        except FileNotFoundError:
            if self.count:
                raise
            return self._open_files.open(self._fs, self.path, self._key, create=True)

    @property
    def entry_size(self) -> int:
        return self._entry.size

    @property
    def is_unsynced(self) -> bool:
        return self._unsynced is not None

    @property
    def is_trimmed(self) -> bool:
        """Whether the file holds its entries and nothing else."""
        return not (self._preallocated or self._ragged)

    # --- growing

    def unseal(self, count: int, max_bytes: int) -> None:
        """Makes a sealed index writable again: it keeps the first `count` entries and makes room for more, up to `max_bytes` in
        all."""
        self.flush()
        self.count, self._last, self._found = count, None, None
        self.capacity = max(capacity_of(max_bytes, self._entry), count)
        self._preallocate(self._file)

    def _preallocate(self, file: OpenFile) -> None:
        self._cut_to_entries(file)
        self._fs.truncate(file.fd, self.capacity * self._entry.size)
        self._preallocated = True

    def _cut_to_entries(self, file: OpenFile) -> None:
        """Removes the bytes behind the entries. They must read as zeros afterwards, in the file as in Kafka's."""
        self._open_files.block = NO_BLOCK
        self._preallocated, self._ragged = False, True
        file.mapping = None
        self._fs.truncate(file.fd, self.count * self._entry.size)
        self._ragged = False
        self._reserved = self.count * self._entry.size
        self.version += 1

    def make_room(self, entries: int) -> None:
        """Makes room for so many entries, or as many as the index can take, so that they need no space later. Raises OSError."""
        needed = min(self.count + entries, self.capacity) * self._entry.size
        if needed <= self._reserved and self._unsynced is not None:
            return
        file = self._file
        if not self._preallocated:
            self._preallocate(file)
        if needed > self._reserved:
            chunk = max(needed - self._reserved, min(max(self._reserved // 4, _RESERVED_MIN), _RESERVED_MAX))
            length = min(chunk, self.capacity * self._entry.size - self._reserved)
            self._fs.reserve(file.fd, self._reserved, length)
            self._reserved += length
        self._unsynced = file
        self._open_files.forget(self._key)

    def append(self, first: int, second: int) -> None:
        """Appends an entry in memory, until `flush`. Raises OSError only if `make_room` was not called before."""
        if self._unsynced is None or (self.count + 1) * self._entry.size > self._reserved:
            self.make_room(1)
        if not self._pending:
            self._last_written = self._last
        self._pending.append(self._entry.pack(first, second))
        self._last = first, second
        self.count += 1

    def flush(self) -> None:
        """Writes the appended entries. Raises OSError; then they do not count as appended."""
        if not self._pending:
            return
        assert self._unsynced is not None
        rest, size = memoryview(b"".join(self._pending)), self._entry.size
        position = (self.count - len(self._pending)) * size
        self.version += 1
        try:
            while rest:
                written = self._fs.pwritev(self._unsynced.fd, [rest], position)
                if written <= 0:
                    raise OSError(errno.EIO, "the disk took none of a write")
                rest, position = rest[written:], position + written
        except OSError as error:
            # The next append asks for the newest entry, and must not read the file for it.
            self.count, self._last = self.count - len(self._pending), self._last_written
            raise OSError(error.errno, f"cannot be written: {error.strerror}", self.path) from error
        finally:
            self._pending.clear()

    def seal(self) -> None:
        """Trims the file to its entries. The new size must reach the disk, since a longer file would seem to hold more
        entries."""
        self.flush()
        # A power cut after a clean stop may have brought the longer file back: only what sealed it has synced the size.
        if not self.is_trimmed or self.capacity > self.count:
            file = self._file
            self._cut_to_entries(file)
            self._unsynced = file
        self.capacity = self.count

    def synced(self, version: int) -> None:
        """Notes that a round has covered all entries up to this version."""
        if version == self.version and self._unsynced is not None:
            handle, self._unsynced = self._unsynced, None
            self._open_files.keep(self._key, handle)

    # --- lookups

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        if self._last is None and self.count:
            self._last = self.entry(self.count - 1)
        return self._last

    def know_last(self, first: int, second: int) -> None:
        """Takes the newest entry from somebody who knows it, so that nobody reads it."""
        self._last = first, second

    def load_last(self) -> None:
        """Reads the newest entry now, since the next user must not wait for a disk. Raises OSError."""
        if self.count:
            self._last = self.entry(self.count - 1)

    def entry(self, slot: int) -> tuple[int, int]:
        if self._found is not None and self._found[0] == slot:
            return self._found[1]
        key, start, block = self._open_files.block
        at = (slot - start) * self._entry.size
        if key != self._key or not 0 <= at < len(block):
            block, start = self._block(slot, slot + 1)
            at = (slot - start) * self._entry.size
        first, second = self._entry.unpack_from(block, at)
        return first, second

    def floor(self, key: int, field: int = 0) -> int:
        """The last slot whose first field, or that `field`, is at most `key`; -1 if there is none."""
        low, high, in_block = 0, self.count, _BLOCK_BYTES // self._entry.size
        if must_not_wait() and self._is_sealed and self.count:
            return self._floor_in_blocks(key, field, in_block)
        if high > in_block and self._entry is OFFSET_ENTRY:  # both fields begin at 0 and grow evenly, so this is the likely block
            assert self.last is not None
            last = self.last[field]
            if last <= key:
                return high - 1
            start = min(max(key * high // max(last, 1) - in_block // 2, 0), high - in_block)
            self._load(start, in_block)
            if self.entry(start)[field] > key:
                high = start
            elif self.entry(start + in_block - 1)[field] > key:
                low, high = start, start + in_block
            else:
                low = start + in_block
        while high - low > in_block:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= key:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low - 1
        start, block = self._load(low, high - low)
        unpack, size = self._entry.unpack_from, self._entry.size
        while low < high:
            middle = (low + high) // 2
            if unpack(block, (middle - start) * size)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _floor_in_blocks(self, key: int, field: int, in_block: int) -> int:
        """As `floor`, in the blocks of a sealed index, each asked for before it is touched. The first is the likely one."""
        assert self.last is not None
        count, last, unpack, size = self.count, self.last[field], self._entry.unpack_from, self._entry.size
        if last <= key:
            return count - 1
        low, high = 0, (count - 1) // in_block
        number = (low + high) // 2
        if self._entry is OFFSET_ENTRY:  # see `floor`
            number = min(max(key * count // max(last, 1), 0) // in_block, high)
        while True:
            start, end = number * in_block, min(number * in_block + in_block, count)
            block, first = self._block(start, end)
            if unpack(block, (start - first) * size)[field] > key:
                high = number - 1
                if high < low:
                    return start - 1
            elif end < count and unpack(block, (end - 1 - first) * size)[field] <= key:
                low = number + 1
                if high < low:
                    return end - 1
            else:
                left, right = start, end
                while left < right:
                    middle = (left + right) // 2
                    if unpack(block, (middle - first) * size)[field] <= key:
                        left = middle + 1
                    else:
                        right = middle
                self._found = left - 1, unpack(block, (left - 1 - first) * size)
                return left - 1
            number = (low + high) // 2

    def _block(self, start: int, end: int) -> tuple[Buffer, int]:
        """Bytes that have those entries, and the slot with which they begin."""
        if must_not_wait() and self._is_sealed:
            handle, size = self._handle, self._entry.size
            mapping = handle.mapping
            if mapping is None or len(mapping) < self.count * size:
                self._refuse_if_cut(handle)
                mapping = handle.mapping = self._fs.map_read(handle.fd, self.count * size)
            if self._fs.is_cached(handle.fd, start * size, (end - start) * size):
                return mapping.view, 0
        return self._read(start, end - start), start

    @property
    def _is_sealed(self) -> bool:
        return self.capacity == self.count and self._unsynced is None

    def _load(self, slot: int, count: int) -> tuple[int, Buffer]:
        """A block that has those entries, and its first slot."""
        key, start, block = self._open_files.block
        if key != self._key or not start <= slot or slot + count > start + len(block) // self._entry.size:
            start, block = slot, self._read(slot, count)
            self._open_files.block = self._key, start, block
        return start, block

    @property
    def is_at_hand(self) -> bool:
        """Whether a lookup needs to open no file."""
        return not self.count or self._unsynced is not None or self._open_files.file(self._key) is not None

    def take_at_hand(self) -> None:
        """Opens the file for lookups. Raises FileNotFoundError if it was removed or cut while it was closed, and OSError."""
        if self.count:
            self._refuse_if_cut(self._handle)

    def _refuse_if_cut(self, handle: OpenFile) -> None:
        if self._fs.size(handle.fd) < self.count * self._entry.size:
            raise IndexTruncated(errno.ENOENT, "shorter than it was", self.path)

    @property
    def _handle(self) -> OpenFile:
        handle = self._unsynced or self._open_files.file(self._key)
        if handle is None:
            handle = self._file
            self._open_files.keep(self._key, handle)
        return handle

    def open_readonly(self) -> int:
        """A new descriptor, which the caller closes."""
        handle = self._handle
        return self._fs.reopen_read(handle.fd)

    def _read(self, slot: int, count: int) -> Buffer:
        if self._pending:
            self.flush()
        handle, size = self._handle, self._entry.size
        if must_not_wait():
            cached = self._fs.pread_cached(handle.fd, count * size, slot * size)
            if cached is not None:
                return cached
        work = partial(self._read_waiting, handle, count * size, slot)
        content = off_loop(self.path, (handle, self.version, slot, count), work)
        if len(content) < count * size:
            raise IndexTruncated(errno.ENOENT, "shorter than it was", self.path)
        return content

    def _read_waiting(self, handle: OpenFile, length: int, slot: int) -> bytes:
        try:
            return self._fs.pread(handle.fd, length, slot * self._entry.size)
        except OSError as error:
            raise OSError(error.errno, f"cannot be read at entry {slot}: {error.strerror}", self.path) from error


def capacity_of(max_bytes: int, entry: struct.Struct) -> int:
    return max(max_bytes // entry.size, _CAPACITY_MIN)


def open_index(
    fs: FileSystem,
    path: str,
    entry: struct.Struct,
    open_files: OpenFiles | None = None,
    owner: SegmentFile | None = None,
) -> IndexEntries | None:
    """A sealed index. None where the file cannot be one: it is then rebuilt from the log. A ragged end is left out. Raises
    OSError."""
    open_files = open_files if open_files is not None else OpenFiles()
    try:
        handle = open_files.open(fs, path, owner) if must_not_wait() else None
        count = (fs.size(handle.fd) if handle is not None else fs.size_of(path)) // entry.size
    except FileNotFoundError:
        return None
    return IndexEntries(fs, path, entry, open_files, count=count, capacity=count, owner=owner)
