"""The walk through the records of one batch, of any codec, to the first that is not older than a timestamp.

It loops over records, so it is a job for a child process, except within narrow limits. Content is decompressed piece by piece,
and no more of it than the walk needs. Keys, values and headers are neither copied nor looked at.
"""

from collections.abc import Iterator
from typing import NamedTuple

from libs.wire.record_batches.batch_layout import HEADER_SIZE, TIMESTAMP_MAX, TIMESTAMP_MIN
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    DecompressionFailed,
    DecompressionTooLarge,
    decompressed_pieces,
)
from libs.wire.record_batches.varints import longer, varint

_HEAD = 31
"""The most bytes from a record's begin to the end of its offset delta: three numbers and the attributes."""
_WINDOW = 64 * 1024


class TimestampWalk(NamedTuple):
    """A batch, what is wanted of it, and the limits of the work."""

    batch: Buffer
    timestamp: int
    start_offset: int
    bytes_max: int
    """Decompressed."""
    records_max: int


class WalkResult(NamedTuple):
    """`offset` -1: no record of the batch qualifies. `is_exact` False: the walk met a limit, or bytes that are no record, and the
    offset is the batch's first. No record before it qualifies."""

    offset: int
    timestamp: int
    leader_epoch: int
    is_exact: bool
    bytes: int
    records: int


def walk_batch(walk: TimestampWalk, report: object = None) -> WalkResult:
    """The first record from `start_offset` on that is not older than `timestamp`. Raises nothing for any content."""
    batch = memoryview(walk.batch)
    header = BatchHeader.at(batch)
    if header.is_log_append_time:
        return unopened(walk)
    base_timestamp, wanted = header.base_timestamp, walk.timestamp
    content = _Content(batch[HEADER_SIZE : header.size], header.codec, min(walk.bytes_max, DECOMPRESSED_BYTES_MAX))
    count = min(header.record_count, walk.records_max)
    window, base, at = b"", 0, 0  # a part of the content, its begin in the content, and the position in it
    try:
        for index in range(count):
            if at + _HEAD > len(window):
                base, at = base + at, 0
                window = content.window_at(base)
            length = window[at]
            at += 1
            if length > 0x7F:
                length, at = longer(window, at, length)
            end = at + (length >> 1)
            delta = window[at + 1]  # after the attributes, which are unused
            at += 2
            if delta > 0x7F:
                if (byte := window[at]) < 0x80:
                    delta += (byte << 7) - 0x80
                    at += 1
                else:
                    delta, at = longer(window, at, delta)
            timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            if timestamp >= wanted:
                offset_delta, at = varint(window, at)
                offset = header.base_offset + offset_delta
                if length & 1 or at > end or not header.base_offset <= offset <= header.last_offset or timestamp > TIMESTAMP_MAX:
                    break
                if offset >= walk.start_offset:
                    return WalkResult(offset, timestamp, header.leader_epoch, True, content.decompressed, index + 1)
            if length & 1 or at > end or timestamp < TIMESTAMP_MIN:
                break
            at = end
        else:
            if count == header.record_count and content.ends_at(base + at):
                return WalkResult(-1, -1, header.leader_epoch, True, content.decompressed, count)
    except (IndexError, DecompressionFailed, DecompressionTooLarge):
        pass
    return unopened(walk)._replace(bytes=content.decompressed, records=count)


def unopened(walk: TimestampWalk) -> WalkResult:
    """The result for a batch that cannot be opened, or whose records share a time: its first offset."""
    header = BatchHeader.at(walk.batch)
    offset = max(header.base_offset, walk.start_offset)
    return WalkResult(offset, header.max_timestamp, header.leader_epoch, header.is_log_append_time, 0, 0)


class _Content:
    """The decompressed records of a batch, seen through a window that only moves on."""

    def __init__(self, blob: memoryview, codec: int, bytes_max: int) -> None:
        self._pieces: Iterator[memoryview] = decompressed_pieces(codec, blob, bytes_max)
        self._piece = memoryview(b"")
        self._piece_at = 0
        self._window = b""
        self._window_at = 0

    @property
    def decompressed(self) -> int:
        """The bytes that were decompressed so far."""
        return self._piece_at + len(self._piece)

    def window_at(self, position: int) -> bytes:
        """The bytes from `position` on, as many as a record's head at least, except at the end. Raises IndexError if the content
        ends before `position`, and the errors of decompression."""
        tail = self._window[position - self._window_at :] if position >= self._window_at else b""
        parts, held, at = [tail], len(tail), position + len(tail)
        while held < _HEAD and self._move_to(at):
            part = bytes(self._piece[at - self._piece_at :][:_WINDOW])
            parts.append(part)
            held += len(part)
            at += len(part)
        self._window, self._window_at = b"".join(parts), position
        return self._window

    def ends_at(self, position: int) -> bool:
        """Whether the content ends exactly there. Raises the errors of decompression."""
        return not self._move_to(position) and self.decompressed == position

    def _move_to(self, position: int) -> bool:
        """Moves on to the piece with that position. False: the content ends before it."""
        while position >= self._piece_at + len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._piece_at += len(self._piece)
            self._piece = piece
        return True
