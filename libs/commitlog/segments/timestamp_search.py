"""The search for a record by its timestamp: by segment, time index, batch headers, then in the batch.

A search is a generator that goes through indexes by itself and yields what may take long. Producers write the headers, so a
header may claim a time that no record of its batch has, and any number of batches may do so. `SearchBudget` bounds the work of
one search. At the bound, the answer is the first offset that was not looked at: no record before it qualifies, so whoever reads
from there misses nothing.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple, TypeVar

from libs.commitlog.files.page_cache import FIRST_ATTEMPT, ColdRead, NonblockingLookup, NotInPageCache, Outcome, without_frames
from libs.commitlog.model.errors import LogDamaged, WouldBlock
from libs.commitlog.segments.segment import Segment, slot_for
from libs.commitlog.segments.segment_batches import BatchPosition
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.batch_layout import CODEC_MASK, FLAGS_AT
from libs.wire.record_batches.batches import HEADER_SIZE, NO_TIMESTAMP, BatchHeader
from libs.wire.record_batches.record_times import first_at
from libs.wire.record_batches.timestamp_walk import TimestampWalk, WalkResult, walk_batch

T = TypeVar("T")

HEADERS_PER_STEP = 16_384
"""About 20 ms in a thread, most of them without the interpreter's lock."""
HEADER_STEPS_MAX = 64
"""A segment of 1 GB with batches of 1 KB has as many headers as these steps."""
BATCHES_MAX = 64
BYTES_MAX = 256 << 20
"""Decompressed. The largest batch has half of it."""
RECORDS_MAX = 2_000_000
"""About a second of a child process."""

_INLINE_BYTES_MAX, _INLINE_RECORDS_MAX = 65_536, 128
"""At most 100 µs on the event loop."""


class TimestampAndOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(slots=True)
class SearchBudget:
    """The work that is left to one search."""

    header_steps: int = HEADER_STEPS_MAX
    batches: int = BATCHES_MAX
    bytes: int = BYTES_MAX
    records: int = RECORDS_MAX

    def take(self, result: WalkResult) -> None:
        self.batches -= 1
        self.bytes -= result.bytes
        self.records -= result.records

    @property
    def is_spent(self) -> bool:
        return min(self.header_steps, self.batches, self.bytes, self.records) <= 0


class MoreHeaders(NamedTuple):
    """The result of a walk that ended at its bound. `place`: the last batch that it looked at, which does not qualify."""

    place: BatchPosition


class _Cut(Exception):
    """The segment was cut, removed or replaced while a step ran."""


def search_timestamp(segments: Sequence[Segment], timestamp: int, start_offset: int, end_offset: int) -> "TimestampSearch":
    """A search for the first record in [start_offset, end_offset) that is not older than `timestamp`. `segments` is the log's
    own list, which may change between steps."""
    budget = SearchBudget()
    while True:
        try:
            for segment in segments[slot_for(segments, start_offset) :]:
                if not segment.size or (yield from _in_index(segments, segment, partial(_max_timestamp_of, segment))) < timestamp:
                    continue
                hint = yield from _in_index(segments, segment, partial(segment.hint_for_timestamp, timestamp))
                position = 0
                while position < segment.size:
                    walk = HeaderWalk(segment, hint, position, segment.size, timestamp, max(start_offset, segment.base_offset))
                    place = yield from _first_batch(segments, walk, budget)
                    if place is None:
                        break
                    offset = max(place.base_offset, start_offset)
                    if offset >= end_offset:
                        return None
                    if budget.is_spent:
                        return TimestampAndOffset(offset, place.max_timestamp, -1)
                    result = yield from _opened(segment, place, timestamp, start_offset, budget)
                    if result is not None:
                        return result if result.offset < end_offset else None
                    start_offset = place.last_offset + 1
                    if segment not in segments:
                        raise _Cut
                    hint, position = None, place.position + place.size
            return None
        except _Cut:
            budget.header_steps -= 1  # a log that is cut again and again ends no search, but the budget does


def search_max_timestamp(segments: Sequence[Segment], end_offset: int) -> "TimestampSearch":
    """A search for the first record with the greatest timestamp."""
    budget = SearchBudget()
    while True:
        try:
            return (yield from _search_max(segments, end_offset, budget))
        except _Cut:
            budget.header_steps -= 1


def _search_max(segments: Sequence[Segment], end_offset: int, budget: SearchBudget) -> "TimestampSearch":
    best: Segment | None = None
    for segment in list(segments):
        if segment.size and segment.base_offset < end_offset:
            greatest = yield from _in_index(segments, segment, partial(_max_timestamp_of, segment))
            if best is None or greatest > best.max_timestamp:
                best = segment
    if best is None:
        return None
    offset = best.offset_of_max_timestamp
    hint = yield from _looked_up(partial(best.hint_for, offset))
    place: BatchPosition | None
    try:
        place = yield from _first_batch(segments, HeaderWalk(best, None, hint, best.size, NO_TIMESTAMP, offset), budget)
    except LogDamaged:
        place = None
    if place is None or not place.base_offset <= offset <= place.last_offset:  # an index with a wrong entry is rebuilt
        place = yield from _looked_up(partial(best.find, offset))
    if place is None:
        raise LogDamaged(f"{best.file.path}: nothing at offset {offset}, which the time index names")
    return (yield from _opened(best, place, best.max_timestamp, 0, budget))


def _in_index(segments: Sequence[Segment], segment: Segment, lookup: Callable[[], T]) -> "Generator[SearchStep, SearchResult, T]":
    """The result of a lookup in the indexes of a segment. Raises _Cut if the segment is gone."""
    try:
        return (yield from _looked_up(lookup))
    except OSError:
        if segment in segments:
            raise
        raise _Cut from None


def _first_batch(
    segments: Sequence[Segment], walk: "HeaderWalk", budget: SearchBudget
) -> "Generator[SearchStep, SearchResult, BatchPosition | None]":
    """The batch that a walk finds, in steps. At the end of the budget, the last that it looked at. Raises _Cut."""
    while True:
        result = yield walk
        assert result is None or isinstance(result, BatchPosition | MoreHeaders | Exception)
        if walk.segment not in segments or walk.segment.size < walk.size:  # meanwhile
            raise _Cut
        if isinstance(result, Exception):
            raise copy(result)  # its own: callers have the result in their frames
        if not isinstance(result, MoreHeaders):
            return result
        budget.header_steps -= 1
        if budget.is_spent:
            return result.place
        walk = HeaderWalk(walk.segment, None, result.place.position, walk.size, walk.timestamp, walk.offset)


def _opened(
    segment: Segment, place: BatchPosition, timestamp: int, start_offset: int, budget: SearchBudget
) -> "Generator[SearchStep, SearchResult, TimestampAndOffset | None]":
    read = yield from _looked_up(partial(segment.batch_reader, place))
    prefix = place._replace(size=min(place.size, _INLINE_BYTES_MAX))
    opening = BatchOpening(
        read, place, timestamp, start_offset, budget.bytes, budget.records, partial(segment.batch_cached, prefix)
    )
    result = yield opening
    assert isinstance(result, WalkResult)
    budget.take(result)
    return TimestampAndOffset(result.offset, result.timestamp, result.leader_epoch) if result.offset >= 0 else None


def _max_timestamp_of(segment: Segment) -> int:
    return segment.max_timestamp


def _looked_up(lookup: Callable[[], T]) -> "Generator[SearchStep, SearchResult, T]":
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

    def __call__(self) -> BatchPosition | MoreHeaders | Exception | None:
        return self._first(self.segment.walk)

    def nonblocking(self) -> BatchPosition | MoreHeaders | Exception | None:
        """Walks on an event loop. Raises WouldBlock."""
        with FIRST_ATTEMPT:
            return self._first(self.segment.walk_cached)

    def _first(self, walk: Callable[[int, int], Iterator[BatchPosition]]) -> BatchPosition | MoreHeaders | Exception | None:
        try:
            for count, place in enumerate(walk(self._start(walk), self.size)):
                if place.max_timestamp >= self.timestamp and place.last_offset >= self.offset:
                    return place
                if count >= HEADERS_PER_STEP:
                    return MoreHeaders(place)
        except (LogDamaged, OSError) as error:
            return without_frames(error)
        return None

    def _start(self, walk: Callable[[int, int], Iterator[BatchPosition]]) -> int:
        """The start of the walk: the position of `hint`, if the batches agree with the indexes; else `position`."""
        if self.hint is not None and 0 <= self.hint[0] <= self.size - HEADER_SIZE:
            start, last_offset, max_timestamp = self.hint
            try:
                for count, place in enumerate(walk(start, self.size)):
                    if place.last_offset >= last_offset:
                        if place.last_offset == last_offset and place.max_timestamp == max_timestamp:
                            return place.position
                        break
                    if count >= HEADERS_PER_STEP:
                        break  # an index of Kafka, with a large `index.interval.bytes`
            except LogDamaged:
                pass
        return self.position


@dataclass(frozen=True, slots=True)
class BatchOpening:
    """A batch that claims a record not older than `timestamp`. A thread reads it, and a child process walks through it, which may
    take long. The log may be appended to and cut meanwhile."""

    read: Callable[[], bytes]
    """Reads the batch, in any thread. Raises OSError, and LogDamaged if the file was cut."""
    place: BatchPosition
    timestamp: int
    start_offset: int
    bytes_max: int
    records_max: int
    read_prefix: Callable[[], bytes | bytearray | None] = lambda: None

    def walk(self, batch: bytes) -> TimestampWalk:
        """The work for a child process: an argument of `walk_batch`."""
        return TimestampWalk(batch, self.timestamp, self.start_offset, self.bytes_max, self.records_max)

    def nonblocking(self) -> WalkResult:
        """Opens the batch on an event loop, if that is quick and finds a record. Raises WouldBlock."""
        with FIRST_ATTEMPT:
            batch = self.read_prefix()
        if batch is None or len(batch) < HEADER_SIZE:
            raise WouldBlock
        if batch[FLAGS_AT] & CODEC_MASK:
            if len(batch) < self.place.size:
                raise WouldBlock
            walk = TimestampWalk(batch, self.timestamp, self.start_offset, _INLINE_BYTES_MAX, _INLINE_RECORDS_MAX)
            result = walk_batch(walk)
            if not result.is_exact or result.offset < 0:
                raise WouldBlock
            return result
        header = BatchHeader.at(batch)
        if header.is_log_append_time:
            return walk_batch(self.walk(bytes(batch)))
        record = first_at(batch, header, self.timestamp, self.start_offset, _INLINE_RECORDS_MAX)
        if record is None:
            raise WouldBlock
        return WalkResult(*record, header.leader_epoch, True, 0, 0)


SearchStep = HeaderWalk | BatchOpening | ColdRead
SearchResult = WalkResult | BatchPosition | MoreHeaders | Outcome | Exception | None
TimestampSearch = Generator[SearchStep, SearchResult, TimestampAndOffset | None]
"""A search that yields the steps that it needs, is sent their results, and returns the answer."""
