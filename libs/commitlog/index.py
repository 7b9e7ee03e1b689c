"""Sparse indexes of a segment, in Kafka's files: offset to position (8 bytes an entry), timestamp to offset (12 bytes).

The active segment's are preallocated and written through a mapping; on roll and close they are trimmed to what they hold.
Space is reserved a chunk ahead of the entries, so that a full disk is an error of `make_room` and never a SIGBUS: nothing is
reserved, mapped or even opened before there is an entry, since most of ten thousand partitions are idle.
"""

import errno
import struct

from libs.commitlog.filesystem import FileSystem, OpenFile
from libs.commitlog.open_files import Mapping, OpenFiles
from libs.commitlog.segment_file import SegmentFile

OFFSET_ENTRY = struct.Struct(">ii")  # last offset of a batch - base, position of the batch
TIME_ENTRY = struct.Struct(">qi")  # greatest timestamp so far, last offset of its batch - base
RELATIVE_OFFSET_MAX = 0x7FFF_FFFF
"""From a segment's base: what an entry has room for."""
_RESERVED_MIN, _RESERVED_MAX = 4096, 65_536
_CAPACITY_MIN = 2  # one entry and, in the time index, the last one that sealing adds


class MappedEntries:
    """Fixed-size entries in a mapped file, ascending, appended one at a time.

    Used by one thread. The mapping goes when others were used more lately, and comes back with the next lookup. Entries that no
    sync has covered hold their file open (see `libs/commitlog/open_files.py`), and their mapping, so that writing cannot fail
    once `make_room` has succeeded.
    """

    __slots__ = (
        "_entry",
        "_fs",
        "_key",
        "_open_files",
        "_owner",
        "_preallocated",
        "_ragged",
        "_reserved",
        "_unsynced",
        "_writing",
        "capacity",
        "count",
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
        """The first `count` entries of a file that is there; opens nothing. `ragged`: more may follow, which does not count.

        `owner`: the log file that it belongs to. Once that is retired, the path is another segment's, and is not opened again.
        """
        self._fs, self.path, self._entry, self._open_files = fs, path, entry, open_files
        self._key = open_files.new_key()
        self._owner = owner
        self.count = count
        self.capacity = max(capacity, count)
        self._reserved = count * entry.size
        self._preallocated, self._ragged = False, ragged
        self._unsynced: OpenFile | None = None
        self._writing: Mapping | None = None
        self.version = 0
        """Rises with every change of the file."""

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
    ) -> "MappedEntries":
        """A new, empty index ready for entries. An older file of that name goes: it belonged to another segment."""
        open_files = open_files if open_files is not None else OpenFiles()
        if fs.exists(path):
            fs.unlink(path)
        file = open_files.open(fs, path, create=True)
        index = cls(fs, path, entry, open_files, count=0, capacity=capacity_of(max_bytes, entry), owner=owner)
        index._preallocate(file)
        return index

    @property
    def unsynced(self) -> OpenFile | None:
        """For a sync round; None if it has nothing to do."""
        return self._unsynced

    @property
    def _file(self) -> OpenFile:
        if self._unsynced is not None:
            return self._unsynced
        if self._owner is not None and self._owner.is_retired:
            raise FileNotFoundError(errno.ENOENT, "its segment was removed or replaced", self.path)
        try:
            return self._open_files.open(self._fs, self.path)
        except FileNotFoundError:
            if self.count:
                raise
            return self._open_files.open(self._fs, self.path, create=True)

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
        """Keeps the first `count` entries and makes room for more, up to `max_bytes` in all."""
        self.count = count
        self.capacity = max(capacity_of(max_bytes, self._entry), count)
        self._preallocate(self._file)

    def _preallocate(self, file: OpenFile) -> None:
        self._cut_to_entries(file)
        self._fs.truncate(file.fd, self.capacity * self._entry.size)
        self._preallocated = True

    def _cut_to_entries(self, file: OpenFile) -> None:
        """What follows the entries must read as zeros afterwards, in the file as in Kafka's."""
        self._open_files.forget(self._key)  # first: nobody may touch a mapping beyond the file's end
        self._writing = None
        self._preallocated, self._ragged = False, True
        self._fs.truncate(file.fd, self.count * self._entry.size)
        self._ragged = False
        self._reserved = self.count * self._entry.size
        self.version += 1

    def make_room(self, entries: int) -> None:
        """Afterwards so many entries, or as many as the index can take, fit without needing space. Raises OSError."""
        needed = min(self.count + entries, self.capacity) * self._entry.size
        if needed <= self._reserved and self._writing is not None:
            return
        file = self._file
        if not self._preallocated:
            self._preallocate(file)
        if needed > self._reserved:
            chunk = max(needed - self._reserved, min(max(self._reserved // 4, _RESERVED_MIN), _RESERVED_MAX))
            length = min(chunk, self.capacity * self._entry.size - self._reserved)
            self._fs.reserve(file.fd, self._reserved, length)
            self._reserved += length
        if self._writing is None:
            self._writing = self._open_files.mapping(self._key) or self._map(file)
            self._unsynced = file
            self._open_files.forget(self._key)

    def append(self, first: int, second: int) -> None:
        """Raises OSError only if `make_room` was not asked before."""
        position = self.count * self._entry.size
        if self._writing is None or position + self._entry.size > self._reserved:
            self.make_room(1)
        assert self._writing is not None
        self.version += 1
        self._entry.pack_into(self._writing.view, position, first, second)
        self.count += 1

    def seal(self) -> None:
        """Trims the file to its entries. That must reach the disk: found longer, it would seem to hold more."""
        if not self.is_trimmed:
            file = self._file
            self._cut_to_entries(file)
            self._unsynced = file
        self.capacity = self.count

    def synced(self, version: int) -> None:
        """A round has covered all entries that were there when `version` was this."""
        if version == self.version:
            if self._writing is not None:
                self._open_files.keep(self._key, self._writing)
            self._unsynced = self._writing = None

    # --- lookups

    def entry(self, slot: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._view(), slot * self._entry.size)
        return first, second

    def floor(self, key: int) -> int:
        """The last slot whose first field is at most `key`; -1 if there is none."""
        low, high = 0, self.count
        if not high:
            return -1
        entry, view, size = self._entry, self._view(), self._entry.size
        while low < high:
            middle = (low + high) // 2
            if entry.unpack_from(view, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    @property
    def is_at_hand(self) -> bool:
        """Whether a lookup opens nothing."""
        return not self.count or self._writing is not None or self._open_files.mapping(self._key) is not None

    def take_at_hand(self) -> None:
        """Raises FileNotFoundError if somebody removed or cut the file while it was closed, and OSError."""
        if self.count:
            self._view()

    def _view(self) -> memoryview:
        return (self._writing or self._open_files.mapping(self._key) or self._map(self._file)).view

    def _map(self, file: OpenFile) -> Mapping:
        length = (self.capacity if self._preallocated else self.count) * self._entry.size
        if self._fs.size(file.fd) < length:
            raise FileNotFoundError(errno.ENOENT, "shorter than it was", self.path)
        mapping = self._open_files.map(self._fs, file, length, write=self._preallocated)
        self._open_files.keep(self._key, mapping)
        return mapping


def capacity_of(max_bytes: int, entry: struct.Struct) -> int:
    return max(max_bytes // entry.size, _CAPACITY_MIN)


def open_index(
    fs: FileSystem,
    path: str,
    entry: struct.Struct,
    open_files: OpenFiles | None = None,
    owner: SegmentFile | None = None,
) -> MappedEntries | None:
    """A sealed index, or None where there is none that could be one: it is then made again from the log. A ragged end is left
    out. Raises OSError."""
    try:
        count = fs.size_of(path) // entry.size
    except FileNotFoundError:
        return None
    open_files = open_files if open_files is not None else OpenFiles()
    return MappedEntries(fs, path, entry, open_files, count=count, capacity=count, owner=owner)
