"""The segments before a resume point, and their lengths. An opening checks by names and sizes that all of them are still there.

Retention takes segments from the front, after the log's start has moved, and the cleaner makes several into one. Any other
segment that is missing or shorter was lost.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from libs.commitlog.files.contiguity import NotedSwap

_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qi")


class ListedSegment(NamedTuple):
    base_offset: int
    size: int


SegmentList = tuple[ListedSegment, ...]


def format_segments(segments: SegmentList) -> bytes:
    return b"".join([_COUNT.pack(len(segments)), *(_ENTRY.pack(*segment) for segment in segments)])


def parse_segments(content: memoryview) -> SegmentList:
    """Reads the list. Older versions wrote none. Raises struct.error."""
    if not content:
        return ()
    (count,) = _COUNT.unpack_from(content)
    if len(content) < _COUNT.size + count * _ENTRY.size:
        raise struct.error("the list of segments is cut short")
    return tuple(map(ListedSegment._make, _ENTRY.iter_unpack(content[_COUNT.size : _COUNT.size + count * _ENTRY.size])))


class MissingSegment(NamedTuple):
    """A segment that is not as listed. `size` is -1 if it is gone."""

    base_offset: int
    next_offset: int
    listed_size: int
    size: int

    def __str__(self) -> str:
        offsets = f"offsets {self.base_offset} to {self.next_offset - 1}"
        if self.size < 0:
            return f"segment {self.base_offset:020d}.log ({offsets}, {self.listed_size} bytes) is gone, it was synced"
        return f"segment {self.base_offset:020d}.log ({offsets}) has {self.size} bytes, {self.listed_size} were synced"


def find_missing(
    listed: SegmentList, end_offset: int, sizes: dict[int, int], *, log_start_offset: int, swaps: Sequence[NotedSwap]
) -> Iterator[MissingSegment]:
    """The listed segments before the one at `end_offset` that are missing or changed. `sizes`: sizes of existing segments, by
    base offset.

    The cleaner may have run since the list was written. A segment that took part in one of `swaps` is in the swap's output, if
    that exists.
    """
    ends = [segment.base_offset for segment in listed[1:]] + [end_offset] * bool(listed)
    for segment, next_offset in zip(listed, ends, strict=True):
        size = sizes.get(segment.base_offset, -1)
        if (
            size != segment.size
            and next_offset > log_start_offset
            and not any(s.covers(segment.base_offset, sizes) for s in swaps)
        ):
            yield MissingSegment(segment.base_offset, next_offset, segment.size, size)


def list_segments(segments: Sequence[tuple[int, int]]) -> SegmentList:
    return tuple(map(ListedSegment._make, segments))
