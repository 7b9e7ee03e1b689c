"""The batches of a `.log` file, found by their headers. A header is checked before it is followed, so that it cannot lead out of
the file."""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from libs.commitlog.files.file_names import LOG, path_of
from libs.commitlog.files.filesystem import Buffer, FileSystem
from libs.commitlog.model.errors import LogDamaged, WouldBlock
from libs.commitlog.segments.segment_file import FileRegistry, SegmentFile
from libs.wire.record_batches.batch_layout import HEADER_SIZE, LENGTH_END, SMALLEST_LENGTH
from libs.wire.record_batches.batches import NO_TIMESTAMP

# the fields that a walk over headers needs: base offset, batch length, last offset delta, max timestamp
_WALK = struct.Struct(">qi11xi8xq")

_CACHED_BATCHES_MAX = 128


class BatchMeta(NamedTuple):
    """The facts about a batch that is appended. The caller has validated, stamped and patched its header."""

    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int  # Kafka's: the batch's last offset
    leader_epoch: int


class BatchPosition(NamedTuple):
    """The position of a batch in a segment."""

    position: int
    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int


class SegmentBatches:
    """The batches in the first `size` bytes of a file."""

    __slots__ = ("_first_timestamp", "_fs", "base_offset", "file", "size")

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, registry: FileRegistry, suffix: str = LOG) -> None:
        self._fs = fs
        self.base_offset = base_offset
        self.file = SegmentFile(fs, path_of(directory, base_offset, suffix), base_offset, registry)
        self.size = 0
        self._first_timestamp: int | None = None

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch, from which the segment's age counts; -1 if it is empty."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = self._place_at(0, self.size).max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def walk(self, position: int, end: int) -> Iterator[BatchPosition]:
        """The batches from `position`, which is a batch's start, to `end`. Raises LogDamaged.

        It reads nothing past `end`, which others may find in the window that it leaves: an append may be undone while a thread
        walks, and other bytes take its place.
        """
        while position < end:
            place = self._place_at(position, end)
            yield place
            position += place.size

    def walk_cached(self, position: int, end: int) -> Iterator[BatchPosition]:
        """Walks over batches in the page cache, up to a bound. Raises WouldBlock instead of going on."""
        for _ in range(_CACHED_BATCHES_MAX):
            if position >= end:
                return
            place = self._place_in(self.file.window_cached(position, HEADER_SIZE, self.size), position)
            yield place
            position += place.size
        raise WouldBlock

    def header_at(self, position: int) -> bytes:
        buffer, at = self._window(position)
        return bytes(buffer[at : at + HEADER_SIZE])

    def batch_reader(self, place: BatchPosition) -> Callable[[], bytes]:
        """A function that reads a copy of a batch, in any thread. It keeps the file open until then. Raises OSError, and
        LogDamaged if the file was cut meanwhile."""
        fs, handle, path = self._fs, self.file.handle, self.file.path

        def read() -> bytes:
            batch = fs.pread(handle.fd, place.size, place.position)
            if len(batch) < place.size:
                raise LogDamaged(f"{path}: ends within the batch at position {place.position}")
            return batch

        return read

    def batch_cached(self, place: BatchPosition) -> bytes | bytearray | None:
        """A copy of a batch, None if it would wait for the disk. Raises OSError."""
        handle = self.file.handle
        return self._fs.pread_cached(handle.fd, place.size, place.position)

    def batch_at(self, place: BatchPosition) -> bytes | bytearray:
        """A copy of a batch, read at once."""
        return self.file.read(place.size, place.position)

    def last_offset_at(self, position: int) -> int:
        """The last offset of the bytes at a position, which may be no batch. A header must fit in."""
        base_offset, _, delta, _ = _WALK.unpack_from(*self._window(position))
        return int(base_offset + delta)

    def _place_at(self, position: int, end: int) -> BatchPosition:
        if position + HEADER_SIZE > self.size:
            raise LogDamaged(f"{self.file.path}: a batch begins {self.size - position} bytes before the end")
        return self._place_in(self.file.window(position, HEADER_SIZE, end), position)

    def _place_in(self, window: tuple[Buffer, int] | None, position: int) -> BatchPosition:
        if window is None:
            raise WouldBlock
        base_offset, length, delta, max_timestamp = _WALK.unpack_from(*window)
        size = length + LENGTH_END
        if length < SMALLEST_LENGTH or delta < 0 or base_offset < self.base_offset or position + size > self.size:
            raise LogDamaged(f"{self.file.path}: no batch at position {position}")
        return BatchPosition(position, base_offset, base_offset + delta, size, max_timestamp)

    def _window(self, position: int) -> tuple[Buffer, int]:
        """Bytes that hold the header at `position`, which lies within `size`, and the header's place in them."""
        return self.file.window(position, HEADER_SIZE, self.size)
