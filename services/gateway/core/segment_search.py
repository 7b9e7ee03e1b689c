"""Finds a batch in a segment by what its indexes say, as its leader would. No I/O: bytes come through `Read`.

Nothing here is sure to find what is there. None means that the leader is to be asked: bytes that are not in memory, an index that
says what the batches do not, too many headers or records to look at.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from libs.wire.batch_layout import CODEC_MASK, HEADER_SIZE, LENGTH_END, LOG_APPEND_TIME, SMALLEST_LENGTH
from libs.wire.batches import BatchHeader
from libs.wire.record_times import first_at

Read = Callable[[int, int], bytes | bytearray | None]
"""So many bytes from a position on, or fewer at the file's end. None: they are not in the page cache."""

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
    """The first so many entries of a file. `first` and `last` are the keys that its entries most likely begin and end with."""

    read: Read
    entries: int
    first: int
    last: int


class Place(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int


class Found(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class SegmentFiles(NamedTuple):
    """`size`: where its committed batches end."""

    base_offset: int
    size: int
    log: Read
    offsets: Index
    times: Index | None = None


def floor(index: Index, entry: struct.Struct, key: int) -> tuple[int, int] | None:
    """The last entry whose first field is at most `key`; (key + 1, 0) if there is none.

    Both fields grow evenly as a rule: where it stands is guessed from the ends of what is left, and a block is read around that.
    """
    low, high, low_key, high_key = 0, index.entries, index.first, index.last
    unpack, size = entry.unpack_from, entry.size
    for probe in range(_PROBES_MAX):
        if high - low <= _BLOCK_ENTRIES:
            start, count = low, high - low
        else:
            share = (low + high) // 2
            if probe < 4 and high_key > low_key:
                share = low + (high - low) * (min(max(key, low_key), high_key) - low_key) // (high_key - low_key)
            start, count = min(max(share - _BLOCK_ENTRIES // 2, low), high - _BLOCK_ENTRIES), _BLOCK_ENTRIES
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
    """Batch headers one after the other, read in windows."""

    __slots__ = ("_at", "_left", "_segment", "_window")

    def __init__(self, segment: SegmentFiles) -> None:
        self._segment = segment
        self._window: bytes | bytearray = b""
        self._at = 0
        self._left = _HEADERS_MAX

    def window_at(self, position: int) -> bytes | bytearray | None:
        """What was read from there on, which may be more or less than the batch."""
        return self._window if position == self._at else None

    def at(self, position: int) -> Place | None:
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
        return Place(position, base_offset, base_offset + delta, size, max_timestamp)


def _start(segment: SegmentFiles, offset: int, headers: _Headers) -> Place | None:
    """The batch that the index names as the last that ends at or before `offset`, or the segment's first."""
    relative = offset - segment.base_offset
    found = floor(segment.offsets, OFFSET_ENTRY, relative)
    if found is None:
        return None
    if found[0] > relative:
        return headers.at(0) if segment.size >= HEADER_SIZE else None
    if not 0 <= found[1] <= segment.size - HEADER_SIZE:
        return None
    place = headers.at(found[1])
    return place if place is not None and place.last_offset - segment.base_offset == found[0] else None


def _next(place: Place, segment: SegmentFiles, headers: _Headers) -> Place | None:
    position = place.position + place.size
    return headers.at(position) if position <= segment.size - HEADER_SIZE else None


def find(segment: SegmentFiles, offset: int) -> Place | None:
    """The first batch that ends at or after `offset`."""
    headers = _Headers(segment)
    place = _start(segment, offset, headers)
    while place is not None and place.last_offset < offset:
        place = _next(place, segment, headers)
    return place


def find_timestamp(segment: SegmentFiles, timestamp: int, start_offset: int) -> Found | None:
    """The first record from `start_offset` on that is at least as late."""
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
    segment: SegmentFiles, place: Place, timestamp: int, start_offset: int, begun: bytes | bytearray | None
) -> Found | None:
    """Compressed batches are their leader's to open, and those in which the record is far behind. `begun` is how it begins, where
    the record most likely is."""
    if begun is None:
        begun = segment.log(place.position, min(place.size, _WINDOW))
    if begun is None or len(begun) < HEADER_SIZE:
        return None
    header = BatchHeader.at(begun)
    if header.attributes & LOG_APPEND_TIME:
        return Found(max(place.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    if header.attributes & CODEC_MASK:
        return None
    record = first_at(begun, header, timestamp, start_offset, _RECORDS_MAX)
    if record is None and len(begun) < place.size <= _BATCH_BYTES_MAX:
        batch = segment.log(place.position, place.size)
        record = first_at(batch, header, timestamp, start_offset, _RECORDS_MAX) if batch is not None else None
    return None if record is None else Found(record[0], record[1], header.leader_epoch)
