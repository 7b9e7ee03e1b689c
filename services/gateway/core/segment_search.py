"""The search for a batch in a segment through its indexes, with the same result as the leader's. No I/O: bytes come through
`Read`.

No search is sure to find a record that exists. None leaves the search to the leader: the bytes are not in memory, an index
contradicts the batches, or there are too many headers or records to look at.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from libs.wire.record_batches.batch_layout import CODEC_MASK, HEADER_SIZE, LENGTH_END, LOG_APPEND_TIME, SMALLEST_LENGTH
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.record_times import first_at

Read = Callable[[int, int], bytes | bytearray | None]
"""Reads so many bytes from a position on, or fewer at the file's end. None: they are not in the page cache."""

OFFSET_ENTRY = struct.Struct(">ii")  # last offset of a batch - base, position of the batch
TIME_ENTRY = struct.Struct(">qi")  # greatest timestamp so far, last offset of its batch - base
_WALK = struct.Struct(">qi11xi8xq")  # base offset, batch length, last offset delta, max timestamp
_BLOCK_ENTRIES = 64
_PROBES_MAX = 12
_WINDOW = 4096 + HEADER_SIZE
_HEADERS_MAX = 160
_BATCH_BYTES_MAX = 65_536
_RECORDS_MAX = 128


class Index(NamedTuple):
    """The first `entries` of an index file. `first` and `last` estimate their keys at both ends."""

    read: Read
    entries: int
    first: int
    last: int


class FoundBatch(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class SegmentFiles(NamedTuple):
    """The readers of a segment's files. `size` is the end of its committed batches."""

    base_offset: int
    size: int
    log: Read
    offsets: Index
    times: Index | None = None


def floor(index: Index, entry: struct.Struct, key: int) -> tuple[int, int] | None:
    """The last entry whose first field is at most `key`; (key + 1, 0) if there is none. None: not known from here.

    Both fields grow evenly as a rule. So each probe guesses the position from the ends of the remaining range, and reads a block
    around it.
    """
    low, high, low_key, high_key = 0, index.entries, index.first, index.last
    unpack, size = entry.unpack_from, entry.size
    for probe in range(_PROBES_MAX):
        if high - low <= _BLOCK_ENTRIES:
            start, count = low, high - low
        else:
            guess = (low + high) // 2
            if probe < 4 and high_key > low_key:
                guess = low + (high - low) * (min(max(key, low_key), high_key) - low_key) // (high_key - low_key)
            start, count = min(max(guess - _BLOCK_ENTRIES // 2, low), high - _BLOCK_ENTRIES), _BLOCK_ENTRIES
        block = index.read(start * size, count * size) if count else b""
        if block is None or len(block) < count * size:
            return None
        if count and start > low and unpack(block, 0)[0] > key:
            high, high_key = start, unpack(block, 0)[0]
        elif count and start + count < high and unpack(block, (count - 1) * size)[0] <= key:
            low, low_key = start + count - 1, unpack(block, (count - 1) * size)[0]
        else:
            left, right = 0, count
            while left < right:
                middle = (left + right) // 2
                if unpack(block, middle * size)[0] <= key:
                    left = middle + 1
                else:
                    right = middle
            if not left:
                return (key + 1, 0)
            first, second = unpack(block, (left - 1) * size)
            return first, second
    return None


class _Headers:
    """A reader of consecutive batch headers. It reads the file in windows."""

    __slots__ = ("_at", "_left", "_segment", "_window")

    def __init__(self, segment: SegmentFiles) -> None:
        self._segment = segment
        self._window: bytes | bytearray = b""
        self._at = 0
        self._left = _HEADERS_MAX

    def window_at(self, position: int) -> bytes | bytearray | None:
        """The bytes read from that position on, which may be more or less than the batch."""
        return self._window if position == self._at else None

    def at(self, position: int) -> FoundBatch | None:
        segment = self._segment
        start = position - self._at
        if not 0 <= start <= len(self._window) - HEADER_SIZE:
            self._left -= 1
            window = segment.log(position, min(_WINDOW, segment.size - position))
            if window is None or len(window) < HEADER_SIZE:
                return None
            self._window, self._at, start = window, position, 0
        self._left -= 1
        base_offset, length, delta, max_timestamp = _WALK.unpack_from(self._window, start)
        size = length + LENGTH_END
        if (
            self._left < 0
            or length < SMALLEST_LENGTH
            or delta < 0
            or base_offset < segment.base_offset
            or position + size > segment.size
        ):
            return None
        return FoundBatch(position, base_offset, base_offset + delta, size, max_timestamp)


def _start(segment: SegmentFiles, offset: int, headers: _Headers) -> FoundBatch | None:
    """The batch of the last index entry at or before `offset`, or the segment's first batch."""
    relative = offset - segment.base_offset
    entry = floor(segment.offsets, OFFSET_ENTRY, relative)
    if entry is None:
        return None
    if entry[0] > relative:
        return headers.at(0) if segment.size >= HEADER_SIZE else None
    if not 0 <= entry[1] <= segment.size - HEADER_SIZE:
        return None
    place = headers.at(entry[1])
    return place if place is not None and place.last_offset - segment.base_offset == entry[0] else None


def _next(place: FoundBatch, segment: SegmentFiles, headers: _Headers) -> FoundBatch | None:
    position = place.position + place.size
    return headers.at(position) if position <= segment.size - HEADER_SIZE else None


def find_batch(segment: SegmentFiles, offset: int) -> FoundBatch | None:
    """The first batch that ends at or after `offset`."""
    headers = _Headers(segment)
    place = _start(segment, offset, headers)
    while place is not None and place.last_offset < offset:
        place = _next(place, segment, headers)
    return place


def find_timestamp(segment: SegmentFiles, timestamp: int, start_offset: int) -> FoundRecord | None:
    """The first record from `start_offset` on whose timestamp is at least `timestamp`."""
    if segment.times is None:
        return None
    entry = floor(segment.times, TIME_ENTRY, timestamp - 1)
    if entry is None:
        return None
    headers = _Headers(segment)
    if entry[0] >= timestamp:
        place = headers.at(0)
    else:
        last_offset = segment.base_offset + entry[1]
        place = _start(segment, last_offset, headers)
        while place is not None and place.last_offset < last_offset:
            place = _next(place, segment, headers)
        if place is None or place.last_offset != last_offset or place.max_timestamp != entry[0]:
            return None
    while place is not None:
        if place.max_timestamp >= timestamp and place.last_offset >= start_offset:
            return _open(segment, place, timestamp, start_offset, headers.window_at(place.position))
        place = _next(place, segment, headers)
    return None


def _open(
    segment: SegmentFiles, place: FoundBatch, timestamp: int, start_offset: int, prefix: bytes | bytearray | None
) -> FoundRecord | None:
    """The record in that batch. None leaves it to the leader: a compressed batch, or a record far behind the batch's begin.

    `prefix` holds the batch's first bytes, where the record most likely is.
    """
    if prefix is None:
        prefix = segment.log(place.position, min(place.size, _WINDOW))
    if prefix is None or len(prefix) < HEADER_SIZE:
        return None
    header = BatchHeader.at(prefix)
    if header.attributes & LOG_APPEND_TIME:
        return FoundRecord(max(place.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    if header.attributes & CODEC_MASK:
        return None
    record = first_at(prefix, header, timestamp, start_offset, _RECORDS_MAX)
    if record is None and len(prefix) < place.size <= _BATCH_BYTES_MAX:
        batch = segment.log(place.position, place.size)
        record = first_at(batch, header, timestamp, start_offset, _RECORDS_MAX) if batch is not None else None
    return None if record is None else FoundRecord(record[0], record[1], header.leader_epoch)
