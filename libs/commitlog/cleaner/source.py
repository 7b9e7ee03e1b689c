"""The reader of a sealed segment, batch by batch in large pieces. It checks everything, since damaged bytes must not be
cleaned."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from libs.commitlog.cleaner.job import SourceSegment
from libs.commitlog.cleaner.pace import Progress
from libs.commitlog.cleaner.record_bytes import InvalidRecord
from libs.commitlog.files.file_names import LOG, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import LogDamaged
from libs.wire.record_batches.batch_layout import SMALLEST_LENGTH
from libs.wire.record_batches.batches import CODEC_MASK, CRC_START, HEADER, HEADER_SIZE, LENGTH_END, BatchHeader
from libs.wire.record_batches.compression import DECOMPRESSED_BYTES_MAX, DecompressionFailed, DecompressionTooLarge, decompress

CHUNK_BYTES = 2 << 20


class TooLargeToOpen(Exception):
    """A sound batch that holds more when decompressed than a process may have in memory. A topic that does not look into batches
    takes it, and Kafka may have written it."""


class Batch(NamedTuple):
    """One batch within a piece of the file."""

    header: BatchHeader
    chunk: bytes
    view: memoryview  # a view of the chunk
    start: int
    stop: int

    def records(self) -> tuple[bytes, int, int]:
        """The bytes that hold the records, and where the records begin and end. Raises InvalidRecord, TooLargeToOpen."""
        codec = self.header.attributes & CODEC_MASK
        if not codec:
            return self.chunk, self.start + HEADER_SIZE, self.stop
        try:
            body = bytes(decompress(codec, self.view[self.start + HEADER_SIZE : self.stop], DECOMPRESSED_BYTES_MAX))
        except DecompressionTooLarge as error:
            raise TooLargeToOpen(str(error)) from error
        except DecompressionFailed as error:
            raise InvalidRecord(str(error)) from error
        return body, 0, len(body)


class Source:
    """A segment that is cleaned."""

    def __init__(self, fs: FileSystem, directory: str, segment: SourceSegment, progress: Progress) -> None:
        self._fs, self._segment, self._progress = fs, segment, progress
        self.path = path_of(directory, segment.base_offset, LOG)
        self.position = 0
        """The position of the current batch, for reports of damage in it."""

    def batches(self) -> Iterator[Batch]:
        """Raises LogDamaged, OSError."""
        fd = self._fs.open_read(self.path)
        try:
            yield from self._batches(fd)
        finally:
            self._fs.close(fd)

    def goes_on(self) -> None:
        """Tells of progress after a batch that took long."""
        self._progress.read(0)

    def damaged(self, why: object) -> LogDamaged:
        return LogDamaged(f"{self.path}: not cleaned, damaged at position {self.position}: {why}")

    def _batches(self, fd: int) -> Iterator[Batch]:
        size, next_offset, end_offset = self._segment.size, self._segment.base_offset, self._segment.next_offset
        # the function that a named tuple's constructor calls: it takes half the time
        unpack, make = HEADER.unpack_from, tuple.__new__
        position, read_size = 0, CHUNK_BYTES
        while position < size:
            self.position = position
            chunk = self._read(fd, position, min(read_size, size - position))
            view = memoryview(chunk)
            at, last_header = 0, len(chunk) - HEADER_SIZE
            read_size = CHUNK_BYTES
            while at <= last_header:
                self.position = position + at
                header = make(BatchHeader, unpack(chunk, at))
                base_offset, length, _, magic, crc, _, delta, _, _, _, _, _, count = header
                stop = at + length + LENGTH_END
                if magic != 2 or length < SMALLEST_LENGTH or position + stop > size or delta < 0 or count < 0:
                    raise self.damaged("no batch")
                if base_offset < next_offset or base_offset + delta >= end_offset:
                    raise self.damaged(f"offsets {base_offset} to {base_offset + delta}, not in [{next_offset}, {end_offset})")
                if stop > len(chunk):
                    read_size = max(CHUNK_BYTES, stop - at)
                    break
                if crc32c(view[at + CRC_START : stop]) != crc:
                    raise self.damaged("the batch does not match its CRC")
                yield make(Batch, (header, chunk, view, at, stop))
                next_offset = base_offset + delta + 1
                at = stop
            if at == 0 and position + len(chunk) == size:
                raise self.damaged(f"a batch begins {len(chunk)} bytes before the end")
            self._progress.read(at)
            position += at

    def _read(self, fd: int, position: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length:
            part = self._fs.pread(fd, length, position)
            if not part:
                raise self.damaged(f"the file ends {length} bytes too early")
            parts.append(part)
            position += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
