"""The search for bytes in a log by offset. Nothing is copied.

Lookups go by segment, index, then headers. Recent end positions of reads are remembered: the next fetch of a consumer starts
there, and the high watermark is looked up again and again.
"""

from typing import NamedTuple

from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.segments.segment import Segment, SegmentFile, slot_for
from libs.commitlog.segments.segment_batches import BatchPosition

_REMEMBERED_MAX = 32


class Slice(NamedTuple):
    """Bytes of one segment file that begin with a whole batch. The last batch may be cut short by `max_bytes`."""

    file: SegmentFile
    position: int
    length: int
    first_offset: int  # of the first batch; at most the offset of the request
    readable_to: int = 0  # the end of the file's batches before the `end_offset` of the request


def _out_of_place(segment: Segment, position: int, offset: int) -> LogDamaged:
    """The error of a batch with an offset that its segment cannot hold. The CRC does not cover offsets, and such a batch would
    make a reader wait for ever."""
    return LogDamaged(f"{segment.file.path}: the batch at position {position} says that it begins at offset {offset}")


class LogReader:
    """The reading side of a log. It shares the log's list of segments. The log calls `forget` whenever it cuts."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._remembered: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        self._remembered.clear()

    def segment_for(self, offset: int) -> int:
        """The index of the segment that would hold `offset`."""
        return slot_for(self._segments, offset)

    def find(self, offset: int) -> tuple[Segment, BatchPosition] | None:
        """The first batch that ends at or after `offset`. A compacted segment may have none, but a later one does."""
        for slot in range(self.segment_for(offset), len(self._segments)):
            segment = self._segments[slot]
            place = segment.find(offset)
            if place is not None:
                if slot + 1 < len(self._segments) and place.last_offset >= self._segments[slot + 1].base_offset:
                    raise _out_of_place(segment, place.position, place.base_offset)
                return segment, place
        return None

    def read(self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool) -> Slice | None:
        """Reads batches from the one that holds `offset`, up to the segment's end or `end_offset`."""
        segment, position, first_offset = self._start(offset)
        if segment is None:
            return None
        if first_offset >= end_offset:
            if first_offset >= log_end_offset:
                raise _out_of_place(segment, position, first_offset)
            return None
        sealed_end = log_end_offset if segment is self._segments[-1] else segment.next_offset
        stop = segment.size if end_offset >= sealed_end else self._position_of(segment, end_offset)
        if end_offset == log_end_offset and segment is self._segments[-1]:
            self._remember(end_offset, segment, stop)
        length = stop - position
        if length > max_bytes:
            place = next(segment.walk(position, stop))
            if place.size > max_bytes and not at_least_one:
                return None
            length = max(place.size, max_bytes)
        return Slice(segment.file, position, length, first_offset, stop) if length > 0 else None

    def readable(self, end_offset: int, log_end_offset: int, segments_max: int) -> list[tuple[Segment, int]]:
        """The segments that hold batches before `end_offset`, each with their end in it; none if there are more than so many."""
        slots = self.segment_for(end_offset) + 1
        if slots > segments_max:
            return []
        *before, last = self._segments[:slots]
        sealed_end = log_end_offset if last is self._segments[-1] else last.next_offset
        stop = last.size if end_offset >= sealed_end else self._position_of(last, end_offset)
        return [*((segment, segment.size) for segment in before), (last, stop)]

    def upper_bound(self, piece: Slice, end_offset: int) -> int:
        """An offset past every batch of `piece`, at most `end_offset`: the next offset in an index, or the segment's end."""
        slot = self.segment_for(piece.first_offset)
        segment = self._segments[slot]
        after = segment.offset_after(piece.position + piece.length)
        if after is None:
            after = segment.next_offset if slot + 1 < len(self._segments) else end_offset
        return min(after, end_offset)

    def _start(self, offset: int) -> tuple[Segment | None, int, int]:
        remembered = self._remembered.get(offset)
        if remembered is not None and remembered[1] < remembered[0].size:
            return *remembered, offset
        location = self.find(offset)
        if location is None:
            return None, 0, 0
        segment, place = location
        return segment, place.position, place.base_offset

    def _position_of(self, segment: Segment, offset: int) -> int:
        """The position of the batch that begins at `offset`; the segment's end if it has no such offset yet."""
        remembered = self._remembered.get(offset)
        if remembered is not None and remembered[0] is segment:
            return remembered[1]
        place = segment.find(offset)
        if place is None:
            return segment.size
        if place.base_offset == offset:
            self._remember(offset, segment, place.position)
        return place.position

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self._remembered) >= _REMEMBERED_MAX and offset not in self._remembered:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[offset] = (segment, position)
