"""Finding bytes in a log: by offset, by timestamp. Nothing here copies batches, except the one that must be opened.

Lookups go segment, index, headers. Offsets at which reads lately ended are remembered with their place: the next fetch of a
consumer starts there, and the high watermark is asked for again and again.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from libs.commitlog.errors import LogDamaged
from libs.commitlog.segment import Segment, SegmentFile
from libs.commitlog.segment_batches import BatchPlace, WouldWait
from libs.wire.batches import HEADER_SIZE, NO_TIMESTAMP, BatchError, BatchHeader
from libs.wire.record_times import first_at
from libs.wire.records import iter_records

_REMEMBERED_MAX = 32
_AT_ONCE_BYTES_MAX, _AT_ONCE_RECORDS_MAX = 65_536, 128


class Slice(NamedTuple):
    """Bytes of one segment file that begin with a whole batch. The last batch may be cut short by `max_bytes`."""

    file: SegmentFile
    position: int
    length: int
    first_offset: int  # of the first batch; at most the offset that was asked for
    readable_to: int = 0  # where the file's batches before the asked `end_offset` end


class FoundTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def _out_of_place(segment: Segment, position: int, offset: int) -> LogDamaged:
    """Offsets stand outside of a batch's CRC. One that the segment cannot hold would leave a reader waiting for ever."""
    return LogDamaged(f"{segment.file.path}: the batch at position {position} says that it begins at offset {offset}")


class LogReader:
    """Shares the log's list of segments; the log says `forget` whenever it cuts."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._remembered: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        self._remembered.clear()

    def segment_for(self, offset: int) -> int:
        """The index of the segment that would hold `offset`."""
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)

    def find(self, offset: int) -> tuple[Segment, BatchPlace] | None:
        """The first batch that ends at or after `offset`; a compacted segment may have nothing there, then a later one has."""
        for slot in range(self.segment_for(offset), len(self._segments)):
            segment = self._segments[slot]
            place = segment.find(offset)
            if place is not None:
                if slot + 1 < len(self._segments) and place.last_offset >= self._segments[slot + 1].base_offset:
                    raise _out_of_place(segment, place.position, place.base_offset)
                return segment, place
        return None

    def read(self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool) -> Slice | None:
        """Batches from the one that holds `offset`, up to the segment's end or `end_offset`."""
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
        """Each segment that holds batches before `end_offset`, and where they end in it; none if these are more than so many."""
        slots = self.segment_for(end_offset) + 1
        if slots > segments_max:
            return []
        *before, last = self._segments[:slots]
        sealed_end = log_end_offset if last is self._segments[-1] else last.next_offset
        stop = last.size if end_offset >= sealed_end else self._position_of(last, end_offset)
        return [*((segment, segment.size) for segment in before), (last, stop)]

    def upper_bound(self, piece: Slice, end_offset: int) -> int:
        """An offset past every batch of `piece`, at most `end_offset`: the next that an index names, or the segment's end."""
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
        found = self.find(offset)
        if found is None:
            return None, 0, 0
        segment, place = found
        return segment, place.position, place.base_offset

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Where the batch with `offset`, which begins there, stands; the segment's end if it holds none so late."""
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

    def search_timestamp(self, timestamp: int, start_offset: int, end_offset: int) -> "TimestampSearch":
        """For the first record at least as late as `timestamp` in [start_offset, end_offset)."""
        for segment in self._segments[self.segment_for(start_offset) :]:
            if segment.size == 0 or segment.max_timestamp < timestamp:
                continue
            hint, position = segment.hint_for_timestamp(timestamp), 0
            while position < (size := segment.size):
                walk = HeaderWalk(segment, hint, position, size, timestamp, max(start_offset, segment.base_offset))
                place = yield walk
                assert not isinstance(place, FoundTimestamp)
                if segment not in self._segments or segment.size < size:  # meanwhile
                    return (yield from self.search_timestamp(timestamp, start_offset, end_offset))
                if isinstance(place, Exception):
                    raise place
                if place is None:
                    break
                if place.base_offset >= end_offset:
                    return None
                opening = segment.batch_reader(place), place, timestamp, start_offset, partial(segment.batch_at_once, place)
                found = yield BatchOpening(*opening)
                assert found is None or isinstance(found, FoundTimestamp)
                if found is not None:
                    return found if found.offset < end_offset else None
                if segment not in self._segments:
                    return (yield from self.search_timestamp(timestamp, place.last_offset + 1, end_offset))
                hint, position = None, place.position + place.size
        return None

    def search_max_timestamp(self, end_offset: int) -> "TimestampSearch":
        """For the record with the greatest timestamp, the first of them."""
        best: Segment | None = None
        for segment in self._segments:
            if segment.size and segment.base_offset < end_offset and (best is None or segment.max_timestamp > best.max_timestamp):
                best = segment
        if best is None:
            return None
        size, offset = best.size, best.offset_of_max_timestamp
        place = yield HeaderWalk(best, None, best.hint_for(offset), size, NO_TIMESTAMP, offset)
        assert not isinstance(place, FoundTimestamp)
        if best not in self._segments or best.size < size:  # meanwhile
            return (yield from self.search_max_timestamp(end_offset))
        if isinstance(place, OSError):
            raise place
        if not (isinstance(place, BatchPlace) and place.base_offset <= offset):  # an index that leads astray is mended
            place = best.find(offset)
        if place is None:
            raise LogDamaged(f"{best.file.path}: nothing at offset {offset}, which the time index names")
        found = yield BatchOpening(best.batch_reader(place), place, best.max_timestamp, 0)
        assert found is None or isinstance(found, FoundTimestamp)
        return found


@dataclass(frozen=True, slots=True)
class HeaderWalk:
    """Calling this goes through the headers of a segment, in any thread, to the first batch that claims to hold a record as late
    as `timestamp`, at or after `offset`. What it cannot read it returns: the segment may have been cut, or have gone, meanwhile.
    """

    segment: Segment
    hint: tuple[int, int, int] | None
    """A position from the indexes, and the (last offset, greatest timestamp) of a batch behind it: all before that are older."""
    position: int
    size: int
    timestamp: int
    offset: int

    def __call__(self) -> BatchPlace | Exception | None:
        return self._first(self.segment.walk)

    def at_once(self) -> BatchPlace | Exception | None:
        """As calling it, on an event loop. Raises WouldWait."""
        return self._first(self.segment.walk_at_once)

    def _first(self, walk: Callable[[int, int], Iterator[BatchPlace]]) -> BatchPlace | Exception | None:
        try:
            for place in walk(self._start(walk), self.size):
                if place.max_timestamp >= self.timestamp and place.last_offset >= self.offset:
                    return place
        except (LogDamaged, OSError) as error:
            return error
        return None

    def _start(self, walk: Callable[[int, int], Iterator[BatchPlace]]) -> int:
        """Where `hint` leads, if the batches say what the indexes say; else where one begins that knows of no index."""
        if self.hint is not None and 0 <= self.hint[0] <= self.size - HEADER_SIZE:
            start, last_offset, max_timestamp = self.hint
            try:
                for place in walk(start, self.size):
                    if place.last_offset >= last_offset:
                        if place.last_offset == last_offset and place.max_timestamp == max_timestamp:
                            return place.position
                        break
            except LogDamaged:
                pass
        return self.position


@dataclass(frozen=True, slots=True)
class BatchOpening:
    """A batch that claims to hold a record as late as `timestamp`. Calling this reads it from the disk and decompresses it, which
    may take long and may be done in any thread; the log may be appended to and cut meanwhile."""

    read: Callable[[], bytes]
    place: BatchPlace
    timestamp: int
    start_offset: int
    read_at_once: Callable[[], bytes | None] = lambda: None

    def at_once(self) -> FoundTimestamp:
        """As calling it, on an event loop, if it is little to do. Raises WouldWait."""
        batch = self.read_at_once() if self.place.size <= _AT_ONCE_BYTES_MAX else None
        if batch is None:
            raise WouldWait
        header = BatchHeader.at(batch)
        if header.is_log_append_time or header.codec:
            raise WouldWait
        found = first_at(batch, header, self.timestamp, self.start_offset, _AT_ONCE_RECORDS_MAX)
        if found is None:
            raise WouldWait
        return FoundTimestamp(*found, header.leader_epoch)

    def __call__(self) -> FoundTimestamp | None:
        """One that cannot be opened is answered by its first offset."""
        batch = self.read()
        header = BatchHeader.at(batch)
        at_its_start = FoundTimestamp(max(self.place.base_offset, self.start_offset), header.max_timestamp, header.leader_epoch)
        if header.is_log_append_time:
            return at_its_start
        try:
            for record in iter_records(batch):
                if record.timestamp >= self.timestamp and record.offset >= self.start_offset:
                    return FoundTimestamp(record.offset, record.timestamp, header.leader_epoch)
        except BatchError:
            return at_its_start
        return None


TimestampSearch = Generator[HeaderWalk | BatchOpening, FoundTimestamp | BatchPlace | Exception | None, FoundTimestamp | None]
"""Goes through indexes itself. It yields what must be read, is sent what that found, and returns."""
