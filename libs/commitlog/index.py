"""Sparse indexes of a segment, in Kafka's files: offset to position (8 bytes an entry), timestamp to offset (12 bytes).

The active segment's are preallocated and written through a mapping; on roll and close they are trimmed to what they hold.
Space is reserved a chunk ahead of the entries, so that a full disk is an error of `make_room` and never a SIGBUS.
"""

import struct

from libs.commitlog.filesystem import FileSystem, OpenFile

OFFSET_ENTRY = struct.Struct(">ii")  # last offset of a batch - base, position of the batch
TIME_ENTRY = struct.Struct(">qi")  # greatest timestamp so far, last offset of its batch - base
_RESERVED_CHUNK = 65_536
_CAPACITY_MIN = 2  # one entry and, in the time index, the last one that sealing adds


class MappedEntries:
    """Fixed-size entries in a mapped file, ascending, appended one at a time."""

    __slots__ = ("_entry", "_fs", "_reserved", "capacity", "count", "file", "path", "view")

    def __init__(self, fs: FileSystem, path: str, entry: struct.Struct) -> None:
        """Opens a sealed index for reading. Raises FileNotFoundError; a ragged end is left out."""
        self._fs, self.path, self._entry = fs, path, entry
        self.file = OpenFile(fs, fs.open_append(path, create=False))
        size = fs.size(self.file.fd)
        self.count = self.capacity = size // entry.size
        self._reserved = size
        self.view = fs.map_read(self.file.fd, size)

    @classmethod
    def create(cls, fs: FileSystem, path: str, entry: struct.Struct, max_bytes: int) -> "MappedEntries":
        """A new, empty index ready for entries. An older file of that name goes: it belonged to another segment."""
        if fs.exists(path):
            fs.unlink(path)
        fs.close(fs.open_append(path, create=True))
        index = cls(fs, path, entry)
        index.unseal(0, max_bytes)
        return index

    def unseal(self, count: int, max_bytes: int) -> None:
        """Keeps the first `count` entries and makes room for more, up to `max_bytes` in all."""
        size = self._entry.size
        self.capacity = max(max_bytes // size, count, _CAPACITY_MIN)
        # Cut first: what follows the kept entries must read as zeros, in the file as in Kafka's.
        self._fs.truncate(self.file.fd, count * size)
        self._fs.truncate(self.file.fd, self.capacity * size)
        self._reserved = count * size
        self.count = count
        self.view = self._fs.map_write(self.file.fd, self.capacity * size)

    def seal(self) -> None:
        """Trims the file to its entries."""
        self._fs.truncate(self.file.fd, self.count * self._entry.size)
        self.capacity = self.count

    def make_room(self, entries: int) -> None:
        """Afterwards so many entries, or as many as the index can take, fit without needing space. Raises OSError."""
        needed = min(self.count + entries, self.capacity) * self._entry.size
        if needed > self._reserved:
            length = min(max(needed - self._reserved, _RESERVED_CHUNK), self.capacity * self._entry.size - self._reserved)
            self._fs.reserve(self.file.fd, self._reserved, length)
            self._reserved += length

    @property
    def entry_size(self) -> int:
        return self._entry.size

    def append(self, first: int, second: int) -> None:
        self._entry.pack_into(self.view, self.count * self._entry.size, first, second)
        self.count += 1

    def entry(self, slot: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self.view, slot * self._entry.size)
        return first, second

    def floor(self, key: int) -> int:
        """The last slot whose first field is at most `key`; -1 if there is none."""
        low, high = 0, self.count
        entry, view, size = self._entry, self.view, self._entry.size
        while low < high:
            middle = (low + high) // 2
            if entry.unpack_from(view, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1


def open_index(fs: FileSystem, path: str, entry: struct.Struct) -> MappedEntries | None:
    """A sealed index, or None where there is none that could be one: it is then made again from the log."""
    try:
        index = MappedEntries(fs, path, entry)
    except FileNotFoundError:
        return None
    return index
