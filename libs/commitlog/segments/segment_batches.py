"""The batches of a `.log` file, found by their headers. Nothing is believed of them that could lead out of the file."""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from libs.commitlog.errors import LogDamaged
from libs.commitlog.file_names import LOG, path_of
from libs.commitlog.filesystem import Buffer, FileSystem
from libs.commitlog.segment_file import FileRegistry, SegmentFile
from libs.wire.batch_layout import HEADER_SIZE, LENGTH_END, SMALLEST_LENGTH
from libs.wire.batches import NO_TIMESTAMP

# base offset, batch length, last offset delta, max timestamp: what a walk over headers needs
_WALK = struct.Struct(">qi11xi8xq")


_AT_ONCE_MAX = 128


class WouldWait(Exception):
    """A disk, or longer than an event loop should be kept from its work."""


class BatchMeta(NamedTuple):
    """What the log must know of a batch that is appended; its header was validated, stamped and patched by the caller."""

    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int  # Kafka's: the batch's last offset
    leader_epoch: int


class BatchPlace(NamedTuple):
    """Where a batch stands in a segment."""

    position: int
    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int


class SegmentBatches:
    """Of the first `size` bytes."""

    __slots__ = ("_first_timestamp", "_fs", "base_offset", "file", "size")

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, registry: FileRegistry, suffix: str = LOG) -> None:
        self._fs = fs
        self.base_offset = base_offset
        self.file = SegmentFile(fs, path_of(directory, base_offset, suffix), base_offset, registry)
        self.size = 0
        self._first_timestamp: int | None = None

    @property
    def first_timestamp(self) -> int:
        """The first batch's, by which the segment's age counts; -1 if it is empty."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = self._place_at(0).max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def walk(self, position: int, end: int) -> Iterator[BatchPlace]:
        """The batches from `position`, which is a batch's start, to `end`. Raises LogDamaged."""
        while position < end:
            place = self._place_at(position)
            yield place
            position += place.size

    def walk_at_once(self, position: int, end: int) -> Iterator[BatchPlace]:
        """As `walk`, over batches that need no disk, and not too many. Raises WouldWait instead of going on."""
        for _ in range(_AT_ONCE_MAX):
            if position >= end:
                return
            place = self._place_in(self.file.window_at_once(position, HEADER_SIZE, self.size), position)
            yield place
            position += place.size
        raise WouldWait

    def header_at(self, position: int) -> bytes:
        buffer, at = self._window(position)
        return bytes(buffer[at : at + HEADER_SIZE])

    def batch_reader(self, place: BatchPlace) -> Callable[[], bytes]:
        """Reads a copy of a batch, for those who must open it, in any thread: the file stays open for as long as it takes."""
        fs, handle = self._fs, self.file.handle
        return lambda: fs.pread(handle.fd, place.size, place.position)

    def batch_at_once(self, place: BatchPlace) -> bytes | None:
        """A copy of a batch, None if the disk would have to be waited for. Raises OSError."""
        handle = self.file.handle
        return self._fs.pread_cached(handle.fd, place.size, place.position)

    def batch_at(self, place: BatchPlace) -> bytes:
        """A copy of a batch, read at once."""
        return self.batch_reader(place)()

    def last_offset_at(self, position: int) -> int:
        """Of what stands there, which may be anything, but for that a header fits in."""
        base_offset, _, delta, _ = _WALK.unpack_from(*self._window(position))
        return int(base_offset + delta)

    def _place_at(self, position: int) -> BatchPlace:
        if position + HEADER_SIZE > self.size:
            raise LogDamaged(f"{self.file.path}: a batch begins {self.size - position} bytes before the end")
        return self._place_in(self._window(position), position)

    def _place_in(self, window: tuple[Buffer, int] | None, position: int) -> BatchPlace:
        if window is None:
            raise WouldWait
        base_offset, length, delta, max_timestamp = _WALK.unpack_from(*window)
        size = length + LENGTH_END
        if length < SMALLEST_LENGTH or delta < 0 or base_offset < self.base_offset or position + size > self.size:
            raise LogDamaged(f"{self.file.path}: no batch at position {position}")
        return BatchPlace(position, base_offset, base_offset + delta, size, max_timestamp)

    def _window(self, position: int) -> tuple[Buffer, int]:
        """Bytes that hold the header at `position`, which lies within `size`, and where."""
        return self.file.window(position, HEADER_SIZE, self.size)
