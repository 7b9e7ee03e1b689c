"""The two indexes of a segment: their creation, their repair, and their growth with its batches.

They lead to batches and are checked against them. An index that is missing, cut or wrong is rebuilt from the `.log` file, so this
class is a kind of `SegmentBatches`. As separate objects the two would refer to each other, and such a cycle keeps files open
until the garbage collector runs.
"""

import contextlib
import errno
import logging
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

from libs.commitlog.files.file_names import INDEX, LOG, TIME_INDEX
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.page_cache import must_not_wait, off_loop
from libs.commitlog.files.sync import syncing
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.segments.index import (
    INTERVAL_BYTES_MAX,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexEntries,
    IndexTruncated,
    capacity_of,
    open_index,
)
from libs.commitlog.segments.segment_batches import BatchMeta, BatchPosition, SegmentBatches
from libs.commitlog.segments.segment_file import FileRegistry
from libs.commitlog.segments.segment_progress import SegmentProgress
from libs.wire.record_batches.batches import HEADER_SIZE, NO_TIMESTAMP

log = logging.getLogger("log")

HEADERS_AT_ONCE = 4096
"""The headers that an event loop walks over: more than lie between two entries of an index that was written here."""

_Indexed = TypeVar("_Indexed", bound="IndexedBatches")
_Arguments = ParamSpec("_Arguments")
_Found = TypeVar("_Found")


def repairing_indexes(
    lookup: Callable[Concatenate[_Indexed, _Arguments], _Found],
) -> Callable[Concatenate[_Indexed, _Arguments], _Found]:
    """Rebuilds the indexes if one was cut while it was in use, and tries again."""

    @wraps(lookup)
    def repaired(self: _Indexed, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Found:
        try:
            return lookup(self, *args, **kwargs)
        except IndexTruncated as cut:
            log.warning("index made again: %s", cut)
            self._rebuild_sealed(takes_more=self._takes_more)
            return lookup(self, *args, **kwargs)

    return repaired


class IndexedBatches(SegmentBatches):
    """Batches with their offset index and time index."""

    __slots__ = (
        "_bytes_since_index",
        "_index_bytes",
        "_index_interval_bytes",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_open_files",
        "_time_index",
        "is_replaced",
    )

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, config: LogConfig, registry: FileRegistry) -> None:
        super().__init__(fs, directory, base_offset, registry)
        self._open_files = registry.open_files
        self._index_interval_bytes = min(config.index_interval_bytes, INTERVAL_BYTES_MAX)
        self._index_bytes = config.segment_index_bytes
        self._offset_index: IndexEntries | None = None
        self._time_index: IndexEntries | None = None
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._bytes_since_index = 0
        self.is_replaced = False
        """Whether another segment has its files' names now. Files that are open may be read on, and none is opened."""

    @property
    def _stem(self) -> str:
        return self.file.path[: -len(LOG)]

    # --- how they come to be

    def begin_indexes(self) -> None:
        """Makes empty indexes for a segment that is about to be filled or scanned."""
        room, owner = self._index_bytes, (self._open_files, self.file)
        self._offset_index = IndexEntries.create(self._fs, self._stem + INDEX, OFFSET_ENTRY, room, *owner)
        self._time_index = IndexEntries.create(self._fs, self._stem + TIME_INDEX, TIME_ENTRY, room, *owner)
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index = 0

    def resume_indexes(self, progress: SegmentProgress, *, closed: bool = False) -> bool:
        """Resumes the indexes as they were at a resume point. False if they are not complete. `closed`: a clean stop trimmed them
        to that size, so they need no check before they are used."""
        counts = (progress.index_entries, progress.time_entries)
        indexes = []
        for suffix, entry, count in zip((INDEX, TIME_INDEX), (OFFSET_ENTRY, TIME_ENTRY), counts, strict=True):
            path = self._stem + suffix
            if not closed:
                opened = open_index(self._fs, path, entry)
                if opened is None or opened.count < count:
                    return False
            capacity, ragged = capacity_of(self._index_bytes, entry), not closed
            indexes.append(
                IndexEntries(
                    self._fs, path, entry, self._open_files, count=count, capacity=capacity, ragged=ragged, owner=self.file
                )
            )
        self._offset_index, self._time_index = indexes
        # An append asks for the last time entry, and must not wait for a disk. A clean stop left the greatest timestamp there.
        if closed and progress.time_entries:
            self._time_index.know_last(progress.max_timestamp, progress.offset_of_max_timestamp - self.base_offset)
        elif not closed:
            with contextlib.suppress(OSError):
                self._time_index.load_last()
        self._max_timestamp = progress.max_timestamp
        self._offset_of_max_timestamp = progress.offset_of_max_timestamp
        self._bytes_since_index = progress.bytes_since_index
        return True

    def rebuild_indexes(self, end: int) -> None:
        """Rebuilds the indexes from the headers of the first `end` bytes, which were checked when they were written."""
        self._refuse_if_replaced()
        self.begin_indexes()
        self.extend_indexes(end)
        self.note_batches(self._metas(0, end), 0)

    @property
    def offset_index(self) -> IndexEntries:
        if self._offset_index is None or not self._offset_index.is_at_hand:
            self._open_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> IndexEntries:
        if self._time_index is None or not self._time_index.is_at_hand:
            self._open_indexes()
        assert self._time_index is not None
        return self._time_index

    def _refuse_if_replaced(self) -> None:
        if self.is_replaced or self.file.is_retired:
            raise OSError(errno.ESTALE, "it left the log, or a cleaned segment took its place", self.file.path)

    def _open_indexes(self) -> None:
        """Opens the indexes, and rebuilds them if they are missing. Raises OSError."""
        self._refuse_if_replaced()
        takes_more = self._takes_more
        owner = (self._open_files, self.file)
        offsets = self._offset_index or open_index(self._fs, self._stem + INDEX, OFFSET_ENTRY, *owner)
        times = self._time_index or open_index(self._fs, self._stem + TIME_INDEX, TIME_ENTRY, *owner)
        try:
            if offsets is not None and times is not None:
                offsets.take_at_hand()
                times.take_at_hand()
                self._offset_index, self._time_index = offsets, times
                return
        except FileNotFoundError:  # the file was removed or cut while it was closed
            pass
        self._rebuild_sealed(takes_more=takes_more)

    def _rebuild_sealed(self, *, takes_more: bool) -> None:
        """Rebuilds the indexes. Those of a sealed segment are sealed and synced at once, since no round will do it: in an
        untrimmed index, the zeros behind its entries would be entries at the next opening. Raises OSError, LogDamaged."""
        if must_not_wait():
            work = partial(copy(self).with_rebuilt_indexes, takes_more=takes_more)
            self._adopt_indexes(off_loop(self.file.path, ("indexes", self.file, *self.known_indexes), work))
            return
        self.rebuild_indexes(self.size)
        if not takes_more:
            self._note_max_timestamp()
            self._seal_indexes()
            self._sync_indexes()

    def with_rebuilt_indexes(self, *, takes_more: bool) -> Self:
        self._rebuild_sealed(takes_more=takes_more)
        return self

    def _adopt_indexes(self, rebuilt: "IndexedBatches") -> None:
        """Takes the indexes that a thread rebuilt, of a copy of this segment, and adds what was appended meanwhile."""
        self._refuse_if_replaced()
        appended = list(self._metas(rebuilt.size, self.size))
        self._offset_index, self._time_index = rebuilt.known_indexes
        self._max_timestamp, self._offset_of_max_timestamp = rebuilt.max_timestamp, rebuilt.offset_of_max_timestamp
        self._bytes_since_index = rebuilt.bytes_since_index
        if appended:
            self.note_batches(appended, rebuilt.size)

    @property
    def bytes_since_index(self) -> int:
        return self._bytes_since_index

    @property
    def _takes_more(self) -> bool:
        return self._offset_index is not None and self._offset_index.capacity > self._offset_index.count

    # --- what they know

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            self._load_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def known_max_timestamp(self) -> int | None:
        """The greatest timestamp, if it is in memory."""
        return self._max_timestamp

    @property
    def known_indexes(self) -> tuple[IndexEntries | None, IndexEntries | None]:
        """The indexes that were used before."""
        return self._offset_index, self._time_index

    @property
    def offset_of_max_timestamp(self) -> int:
        self._load_max_timestamp()
        return self._offset_of_max_timestamp

    @repairing_indexes
    def _load_max_timestamp(self) -> None:
        if self._max_timestamp is None:
            times = self.time_index
            if self._max_timestamp is None:  # the opening may have rebuilt the indexes, which sets it
                max_timestamp, relative = times.entry(times.count - 1) if times.count else (NO_TIMESTAMP, 0)
                is_newest = self._is_newest(max_timestamp, relative)
                if self._max_timestamp is None and is_newest:
                    self._max_timestamp, self._offset_of_max_timestamp = max_timestamp, self.base_offset + relative
                elif self._max_timestamp is None:
                    self._rebuild_sealed(takes_more=self._takes_more)

    @property
    def progress(self) -> SegmentProgress:
        return SegmentProgress(
            self.base_offset,
            self.size,
            self.offset_index.count,
            self.time_index.count,
            self.max_timestamp,
            self.offset_of_max_timestamp,
            self._bytes_since_index,
        )

    @repairing_indexes
    def find(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at or after `offset`."""
        position = 0
        slot = self.offset_index.floor(offset - self.base_offset)
        if slot >= 0:
            relative, position = self.offset_index.entry(slot)
            if not self._is_true(relative, position):
                self._rebuild_sealed(takes_more=self._takes_more)
                return self.find(offset)
        for count, place in enumerate(self.walk(position, self.size)):
            if place.last_offset >= offset:
                return place
            if count >= HEADERS_AT_ONCE and must_not_wait():  # Kafka, or a former version, wrote few entries
                self._rebuild_sealed(takes_more=self._takes_more)
                return self.find(offset)
        return None

    def _is_true(self, relative: int, position: int) -> bool:
        """An index entry is checked against the batch it names: the file may hold anything after a power cut."""
        if not 0 <= position <= self.size - HEADER_SIZE:
            return False
        return self.last_offset_at(position) - self.base_offset == relative

    def _is_newest(self, timestamp: int, relative: int) -> bool:
        """Whether the last time entry has the segment's greatest timestamp, by which retention deletes. The batch that it names
        has that timestamp, and no batch behind the last index entry has a greater one."""
        try:
            if timestamp != NO_TIMESTAMP:
                named = self.find(self.base_offset + relative)
                if named is None or named.max_timestamp != timestamp:
                    return False
            offsets = self.offset_index
            position = offsets.entry(offsets.count - 1)[1] if offsets.count else 0
            if offsets.count and not self._is_true(*offsets.entry(offsets.count - 1)):
                return False
            for count, place in enumerate(self.walk(position, self.size)):
                if place.max_timestamp > timestamp or (count >= HEADERS_AT_ONCE and must_not_wait()):
                    return False  # the second: as above, the index gets more entries
            return True
        except LogDamaged:
            return True  # unreadable batches prove nothing, and would not make a better index

    # --- growing and ending

    def make_room(self, batches: int, total_bytes: int) -> bool:
        """Reserves the index entries that an append may need. False if the indexes have no room. Raises OSError."""
        if self._bytes_since_index + total_bytes <= self._index_interval_bytes:
            return True  # the append adds no entry
        return self._make_room_for_entries(batches, total_bytes)

    @repairing_indexes
    def _make_room_for_entries(self, batches: int, total_bytes: int) -> bool:
        entries = min(batches, total_bytes // max(HEADER_SIZE, self._index_interval_bytes) + 1)
        offsets, times = self.offset_index, self.time_index
        # One time entry is kept for sealing, as in Kafka.
        if offsets.count + entries > offsets.capacity or times.count + entries + 1 > times.capacity:
            return False
        offsets.make_room(entries)
        times.make_room(entries + 1)
        self._owes_time_entry()  # reads now, since a failure after the write would be too late
        return True

    def extend_indexes(self, total_bytes: int) -> None:
        """Extends the indexes for batches that are in the file already, whatever the config allows now. Space is taken as entries
        come. To reserve all that might be needed could keep a log from opening on a full disk."""
        entries = total_bytes // max(HEADER_SIZE, self._index_interval_bytes) + 2
        for index in (self.offset_index, self.time_index):
            if index.count + entries > index.capacity:
                index.unseal(index.count, (index.count + entries) * index.entry_size)

    def note_batches(self, batches: Iterable[tuple[int, int, int, int, int, int]], position: int) -> int:
        """Adds index entries for batches at `position`; each batch is a BatchMeta or looks like one. Returns where they end.

        As in Kafka, an entry comes with the first batch after the interval, and never with the first of a segment.
        """
        since, interval, greatest = self._bytes_since_index, self._index_interval_bytes, self.max_timestamp
        has_entries = False
        for _, last_offset, size, max_timestamp, offset_of_max_timestamp, _ in batches:
            if max_timestamp > greatest:
                self._max_timestamp = greatest = max_timestamp
                self._offset_of_max_timestamp = offset_of_max_timestamp
            if since > interval:
                self.offset_index.append(last_offset - self.base_offset, position)
                self._note_max_timestamp()
                since, has_entries = 0, True
            position += size
            since += size
        self._bytes_since_index = since
        if has_entries:
            self._flush_indexes()
        return position

    def _flush_indexes(self) -> None:
        """Flushes the indexes. The batches are written already, so after a failure the index is only sparser until the next
        entry."""
        for index in (self._offset_index, self._time_index):
            try:
                if index is not None:
                    index.flush()
            except OSError as error:
                self._bytes_since_index = self._index_interval_bytes + 1
                log.warning("entries left out: %s", error)

    def _owes_time_entry(self) -> bool:
        times = self.time_index
        return self.max_timestamp > (times.last[0] if times.last is not None else NO_TIMESTAMP)

    def _note_max_timestamp(self) -> None:
        if self._owes_time_entry():
            self.time_index.append(self.max_timestamp, self._offset_of_max_timestamp - self.base_offset)

    def trim_indexes(self, end_offset: int) -> None:
        """Drops the entries of a tail that was cut. The indexes accept entries again."""
        offsets, times = self.offset_index, self.time_index
        end = end_offset - self.base_offset
        time_entries = times.count
        while time_entries and times.entry(time_entries - 1)[1] >= end:
            time_entries -= 1
        offsets.unseal(offsets.floor(end - 1) + 1, self._index_bytes)
        times.unseal(time_entries, self._index_bytes)
        self._max_timestamp, relative = times.entry(time_entries - 1) if time_entries else (NO_TIMESTAMP, 0)
        self._offset_of_max_timestamp = self.base_offset + relative
        self._bytes_since_index = 0
        position = offsets.entry(offsets.count - 1)[1] if offsets.count else 0
        self.note_batches(self._metas(position, self.size), position)

    def _metas(self, position: int, end: int) -> Iterator[BatchMeta]:
        for place in self.walk(position, end):
            yield BatchMeta(place.base_offset, place.last_offset, place.size, place.max_timestamp, place.last_offset, -1)

    def _seal_indexes(self) -> None:
        self.offset_index.seal()
        self.time_index.seal()

    def _sync_indexes(self) -> None:
        for index in (self.offset_index, self.time_index):
            if index.unsynced is not None:
                with syncing():
                    self._fs.fdatasync(index.unsynced.fd)
                index.synced(index.version)
