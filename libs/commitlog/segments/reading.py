"""The search for bytes in a log, by offset or by timestamp. Only a batch that must be opened is copied.

Lookups go by segment, index, then headers. Recent end positions of reads are remembered: the next fetch of a consumer starts
there, and the high watermark is looked up again and again.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from libs.commitlog.files.page_cache import FIRST_ATTEMPT, ColdRead, NonblockingLookup, NotInPageCache, Outcome
from libs.commitlog.model.errors import LogDamaged, WouldBlock
from libs.commitlog.segments.segment import Segment, SegmentFile
from libs.commitlog.segments.segment_batches import BatchPosition
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.batches import HEADER_SIZE, NO_TIMESTAMP, BatchError, BatchHeader
from libs.wire.record_batches.record_times import first_at
from libs.wire.record_batches.records import iter_records

T = TypeVar("T")

_REMEMBERED_MAX = 32
_NONBLOCKING_BYTES_MAX, _NONBLOCKING_RECORDS_MAX = 65_536, 128


class Slice(NamedTuple):
    """Bytes of one segment file that begin with a whole batch. The last batch may be cut short by `max_bytes`."""

    file: SegmentFile
    position: int
    length: int
    first_offset: int  # of the first batch; at most the offset of the request
    readable_to: int = 0  # the end of the file's batches before the `end_offset` of the request


class TimestampAndOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


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
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)

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

    def search_timestamp(self, timestamp: int, start_offset: int, end_offset: int) -> "TimestampSearch":
        """A search for the first record in [start_offset, end_offset) that is not older than `timestamp`."""
        for segment in self._segments[self.segment_for(start_offset) :]:
            if segment.size == 0:
                continue
            try:
                if (yield from _told(partial(_max_timestamp_of, segment))) < timestamp:
                    continue
                hint, position = (yield from _told(partial(segment.hint_for_timestamp, timestamp))), 0
            except OSError:
                if segment in self._segments:
                    raise
                return (yield from self.search_timestamp(timestamp, start_offset, end_offset))
            while position < (size := segment.size):
                walk = HeaderWalk(segment, hint, position, size, timestamp, max(start_offset, segment.base_offset))
                place = yield walk
                assert not isinstance(place, TimestampAndOffset | Outcome)
                if segment not in self._segments or segment.size < size:  # meanwhile
                    return (yield from self.search_timestamp(timestamp, start_offset, end_offset))
                if isinstance(place, Exception):
                    raise place
                if place is None:
                    break
                if place.base_offset >= end_offset:
                    return None
                read = yield from _told(partial(segment.batch_reader, place))
                opening = read, place, timestamp, start_offset, partial(segment.batch_cached, place)
                result = yield BatchOpening(*opening)
                assert result is None or isinstance(result, TimestampAndOffset)
                if result is not None:
                    return result if result.offset < end_offset else None
                if segment not in self._segments:
                    return (yield from self.search_timestamp(timestamp, place.last_offset + 1, end_offset))
                hint, position = None, place.position + place.size
        return None

    def search_max_timestamp(self, end_offset: int) -> "TimestampSearch":
        """A search for the first record with the greatest timestamp."""
        best: Segment | None = None
        for segment in list(self._segments):
            if segment.size and segment.base_offset < end_offset:
                try:
                    greatest = yield from _told(partial(_max_timestamp_of, segment))
                except OSError:
                    if segment in self._segments:
                        raise
                    return (yield from self.search_max_timestamp(end_offset))
                if best is None or greatest > best.max_timestamp:
                    best = segment
        if best is None:
            return None
        size, offset = best.size, best.offset_of_max_timestamp
        hint = yield from _told(partial(best.hint_for, offset))
        place = yield HeaderWalk(best, None, hint, size, NO_TIMESTAMP, offset)
        assert not isinstance(place, TimestampAndOffset | Outcome)
        if best not in self._segments or best.size < size:  # meanwhile
            return (yield from self.search_max_timestamp(end_offset))
        if isinstance(place, OSError):
            raise place
        if not (isinstance(place, BatchPosition) and place.base_offset <= offset):  # an index with a wrong entry is rebuilt
            place = yield from _told(partial(best.find, offset))
        if place is None:
            raise LogDamaged(f"{best.file.path}: nothing at offset {offset}, which the time index names")
        read = yield from _told(partial(best.batch_reader, place))
        result = yield BatchOpening(read, place, best.max_timestamp, 0)
        assert result is None or isinstance(result, TimestampAndOffset)
        return result


def _max_timestamp_of(segment: Segment) -> int:
    return segment.max_timestamp


def _told(lookup: Callable[[], T]) -> "Generator[SearchStep, SearchResult, T]":
    """The result of a lookup in the indexes, between whose attempts a thread reads what the page cache lacks."""
    reads = NonblockingLookup()
    while True:
        try:
            with reads:
                return lookup()
        except NotInPageCache as miss:
            read = miss.read
        outcome = yield read
        assert isinstance(outcome, Outcome)
        reads.take(read, outcome)


@dataclass(frozen=True, slots=True)
class HeaderWalk:
    """A walk through the headers of a segment, in any thread, to the first batch at or after `offset` that claims a record not
    older than `timestamp`.

    Calling it returns the batch, or the exception of a failed read: the segment may have been cut, or removed, meanwhile.
    """

    segment: Segment
    hint: tuple[int, int, int] | None
    """A position from the indexes, and the (last offset, greatest timestamp) of a batch behind it. All batches before the
    position are older."""
    position: int
    size: int
    timestamp: int
    offset: int

    def __call__(self) -> BatchPosition | Exception | None:
        return self._first(self.segment.walk)

    def nonblocking(self) -> BatchPosition | Exception | None:
        """Walks on an event loop. Raises WouldBlock."""
        with FIRST_ATTEMPT:
            return self._first(self.segment.walk_cached)

    def _first(self, walk: Callable[[int, int], Iterator[BatchPosition]]) -> BatchPosition | Exception | None:
        try:
            for place in walk(self._start(walk), self.size):
                if place.max_timestamp >= self.timestamp and place.last_offset >= self.offset:
                    return place
        except (LogDamaged, OSError) as error:
            return error
        return None

    def _start(self, walk: Callable[[int, int], Iterator[BatchPosition]]) -> int:
        """The start of the walk: the position of `hint`, if the batches agree with the indexes; else `position`."""
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
    """A batch that claims a record not older than `timestamp`. Calling this reads and decompresses the batch, which may take
    long. Any thread may do it; the log may be appended to and cut meanwhile."""

    read: Callable[[], bytes]
    place: BatchPosition
    timestamp: int
    start_offset: int
    read_cached: Callable[[], bytes | bytearray | None] = lambda: None

    def nonblocking(self) -> TimestampAndOffset:
        """Opens the batch on an event loop, if that is quick. Raises WouldBlock."""
        with FIRST_ATTEMPT:
            batch = self.read_cached() if self.place.size <= _NONBLOCKING_BYTES_MAX else None
        if batch is None:
            raise WouldBlock
        header = BatchHeader.at(batch)
        if header.is_log_append_time or header.codec:
            raise WouldBlock
        record = first_at(batch, header, self.timestamp, self.start_offset, _NONBLOCKING_RECORDS_MAX)
        if record is None:
            raise WouldBlock
        return TimestampAndOffset(*record, header.leader_epoch)

    def __call__(self) -> TimestampAndOffset | None:
        """Opens the batch. If it cannot be opened, the answer is its first offset."""
        batch = self.read()
        header = BatchHeader.at(batch)
        at_its_start = TimestampAndOffset(
            max(self.place.base_offset, self.start_offset), header.max_timestamp, header.leader_epoch
        )
        if header.is_log_append_time:
            return at_its_start
        try:
            for record in iter_records(batch):
                if record.timestamp >= self.timestamp and record.offset >= self.start_offset:
                    return TimestampAndOffset(record.offset, record.timestamp, header.leader_epoch)
        except BatchError:
            return at_its_start
        return None


SearchStep = HeaderWalk | BatchOpening | ColdRead
SearchResult = TimestampAndOffset | BatchPosition | Outcome | Exception | None
TimestampSearch = Generator[SearchStep, SearchResult, TimestampAndOffset | None]
"""A search that goes through indexes by itself. It yields the reads that it needs, is sent their results, and returns the
answer."""
