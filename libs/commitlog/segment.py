"""One segment: a `.log` file of batches and its two indexes.

The last segment of a log is active: its indexes take entries, and are preallocated when the first one comes. The others are
sealed. All open on demand, and close when others were used more lately (see `libs/commitlog/open_files.py`).
No byte that was readable is ever written again (append-only inodes): a segment grows, or is cut and sealed, or goes.
"""

import contextlib
import errno
import logging
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from libs.commitlog.config import LogConfig
from libs.commitlog.errors import LogDamaged
from libs.commitlog.file_names import INDEX, LOG, TIME_INDEX, segment_files
from libs.commitlog.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.index import OFFSET_ENTRY, TIME_ENTRY, IndexCut, IndexEntries, capacity_of, open_index
from libs.commitlog.resume import SegmentProgress
from libs.commitlog.segment_batches import BatchPlace, SegmentBatches
from libs.commitlog.segment_file import FileRegistry, SegmentFile
from libs.commitlog.sync import Unsynced, syncing
from libs.wire.batches import HEADER_SIZE, NO_TIMESTAMP

log = logging.getLogger(__name__)

__all__ = ["BatchMeta", "FileRegistry", "Segment", "SegmentFile"]

_Arguments = ParamSpec("_Arguments")
_Found = TypeVar("_Found")


class BatchMeta(NamedTuple):
    """What the log must know of a batch that is appended; its header was validated, stamped and patched by the caller."""

    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int  # Kafka's: the batch's last offset
    leader_epoch: int


def _mending(
    lookup: "Callable[Concatenate[Segment, _Arguments], _Found]",
) -> "Callable[Concatenate[Segment, _Arguments], _Found]":
    """Makes the indexes again if somebody cut one that is in use, and looks once more."""

    @wraps(lookup)
    def mended(self: "Segment", /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Found:
        try:
            return lookup(self, *args, **kwargs)
        except IndexCut as cut:
            log.warning("index made again: %s", cut)
            self._make_indexes_again(takes_more=self._takes_more)
            return lookup(self, *args, **kwargs)

    return mended


class Segment(SegmentBatches):
    """Its batches, with the indexes that find them."""

    __slots__ = (
        "_bytes_since_index",
        "_index_bytes",
        "_index_interval_bytes",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_open_files",
        "_preallocate",
        "_time_index",
        "is_replaced",
        "next_offset",
    )

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, config: LogConfig, registry: FileRegistry) -> None:
        super().__init__(fs, directory, base_offset, registry)
        self._open_files = registry.open_files
        self.next_offset = base_offset
        """Of a sealed segment: the first offset after it. The active one's is the log's end."""
        self._index_interval_bytes = config.index_interval_bytes
        self._index_bytes = config.segment_index_bytes
        self._preallocate = config.preallocate
        self._offset_index: IndexEntries | None = None
        self._time_index: IndexEntries | None = None
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._bytes_since_index = 0
        self.is_replaced = False
        """Another segment bears its files' names: what it has open may be read on, and nothing is opened."""

    @classmethod
    def create(cls, fs: FileSystem, directory: str, base_offset: int, config: LogConfig, registry: FileRegistry) -> "Segment":
        """A new, empty, active segment. Raises OSError and leaves nothing behind."""
        segment = cls(fs, directory, base_offset, config, registry)
        try:
            segment.file.create()
            if config.preallocate:
                handle = segment.file.handle
                fs.reserve(handle.fd, 0, config.segment_bytes)
            segment.begin_indexes()
        except OSError:
            segment.remove()
            raise
        return segment

    @property
    def _stem(self) -> str:
        return self.file.path[: -len(LOG)]

    # --- the indexes and what they know

    def begin_indexes(self) -> None:
        """Empty indexes that take entries, as for a segment that is about to be filled or scanned."""
        room, owner = self._index_bytes, (self._open_files, self.file)
        self._offset_index = IndexEntries.create(self._fs, self._stem + INDEX, OFFSET_ENTRY, room, *owner)
        self._time_index = IndexEntries.create(self._fs, self._stem + TIME_INDEX, TIME_ENTRY, room, *owner)
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index = 0

    def resume_indexes(self, progress: SegmentProgress, *, closed: bool = False) -> bool:
        """Takes up the indexes as they were at a resume point. False if they are not all there. `closed`: they were trimmed to
        that, in a clean stop, so nobody need look before they are used."""
        counts = (progress.index_entries, progress.time_entries)
        indexes = []
        for suffix, entry, count in zip((INDEX, TIME_INDEX), (OFFSET_ENTRY, TIME_ENTRY), counts, strict=True):
            path = self._stem + suffix
            if not closed:
                found = open_index(self._fs, path, entry)
                if found is None or found.count < count:
                    return False
            capacity, whose = capacity_of(self._index_bytes, entry), (entry, self._open_files)
            indexes.append(
                IndexEntries(self._fs, path, *whose, count=count, capacity=capacity, ragged=not closed, owner=self.file)
            )
        self._offset_index, self._time_index = indexes
        self._max_timestamp = progress.max_timestamp
        self._offset_of_max_timestamp = progress.offset_of_max_timestamp
        self._bytes_since_index = progress.bytes_since_index
        return True

    def rebuild_indexes(self, end: int) -> None:
        """Makes the indexes again from the headers of the first `end` bytes, which were checked when they were written."""
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
        """Makes them again if they are not there. Raises OSError."""
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
        except FileNotFoundError:  # somebody removed or cut it while it was closed
            pass
        self._make_indexes_again(takes_more=takes_more)

    def _make_indexes_again(self, *, takes_more: bool) -> None:
        """Those of a sealed segment are sealed and synced at once, since no round will: found untrimmed at the next opening, the
        zeros behind their entries would be entries. Raises OSError, LogDamaged."""
        self.rebuild_indexes(self.size)
        if not takes_more:
            self._note_max_timestamp()
            self._seal_indexes()
            self._sync_indexes()

    @property
    def _takes_more(self) -> bool:
        return self._offset_index is not None and self._offset_index.capacity > self._offset_index.count

    @property
    def max_timestamp(self) -> int:
        self._load_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def latest_ms(self) -> int:
        """By which retention tells its age: its greatest timestamp, or when the file was last written if it has none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._fs.modified_ms(self.file.path)

    @property
    def offset_of_max_timestamp(self) -> int:
        self._load_max_timestamp()
        return self._offset_of_max_timestamp

    @_mending
    def _load_max_timestamp(self) -> None:
        if self._max_timestamp is None:
            times = self.time_index
            if self._max_timestamp is None:  # opening may have rebuilt, which knows already
                found, relative = times.entry(times.count - 1) if times.count else (NO_TIMESTAMP, 0)
                is_newest = self._is_newest(found, relative)
                if self._max_timestamp is None and is_newest:
                    self._max_timestamp, self._offset_of_max_timestamp = found, self.base_offset + relative
                elif self._max_timestamp is None:
                    self._make_indexes_again(takes_more=self._takes_more)

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

    # --- growing

    @_mending
    def make_room(self, batches: int, total_bytes: int) -> bool:
        """Reserves what the indexes may need for an append. False if they cannot take it. Raises OSError."""
        if self._bytes_since_index + total_bytes <= self._index_interval_bytes:
            return True  # no entry comes of it
        entries = min(batches, total_bytes // max(HEADER_SIZE, self._index_interval_bytes) + 1)
        offsets, times = self.offset_index, self.time_index
        # One time entry is kept for sealing, as in Kafka.
        if offsets.count + entries > offsets.capacity or times.count + entries + 1 > times.capacity:
            return False
        offsets.make_room(entries)
        times.make_room(entries + 1)
        self._owes_time_entry()  # reads now what cannot fail once the batches are written
        return True

    def trim_indexes(self, end_offset: int) -> None:
        """Drops the entries of a tail that was cut. The indexes then take entries again."""
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

    def extend_indexes(self, total_bytes: int) -> None:
        """For the entries of so many bytes of batches that are in the file already, whatever the config allows now. Space is
        taken as entries come: for all that there might be, a full disk could keep a log from opening that had fewer."""
        entries = total_bytes // max(HEADER_SIZE, self._index_interval_bytes) + 2
        for index in (self.offset_index, self.time_index):
            if index.count + entries > index.capacity:
                index.unseal(index.count, (index.count + entries) * index.entry_size)

    def write(self, buffers: Sequence[Buffer], total_bytes: int) -> None:
        """At the end, where nothing is readable yet. Raises OSError with nothing left behind, or LogDamaged if it cannot cut."""
        self.file.write(buffers, total_bytes, self.size)

    def extend(self, batches: Sequence[BatchMeta]) -> None:
        """The batches that were just written; `make_room` was asked before."""
        if not self.size:
            self._first_timestamp = batches[0].max_timestamp
        self.size = self.note_batches(batches, self.size)

    def note_batches(self, batches: Iterable[tuple[int, int, int, int, int, int]], position: int) -> int:
        """Index upkeep for batches that stand at `position`; each is a BatchMeta or looks like one. Returns where they end.

        As Kafka does it: an entry comes with the first batch after the interval, and never with the first of a segment.
        """
        since, interval, greatest = self._bytes_since_index, self._index_interval_bytes, self.max_timestamp
        for _, last_offset, size, max_timestamp, offset_of_max_timestamp, _ in batches:
            if max_timestamp > greatest:
                self._max_timestamp = greatest = max_timestamp
                self._offset_of_max_timestamp = offset_of_max_timestamp
            if since > interval:
                self.offset_index.append(last_offset - self.base_offset, position)
                self._note_max_timestamp()
                since = 0
            position += size
            since += size
        self._bytes_since_index = since
        self._flush_indexes()
        return position

    def _flush_indexes(self) -> None:
        """The batches are written already: an index that cannot be is sparser until the next one comes, and as good."""
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

    # --- ending

    @_mending
    def make_room_to_seal(self) -> None:
        """Afterwards `seal` needs no space, and writes nothing. Raises OSError."""
        if self._owes_time_entry():
            self.time_index.make_room(1)
            self._note_max_timestamp()
            self.time_index.flush()

    def seal(self, next_offset: int) -> None:
        """No more batches. Trims the indexes; the caller syncs them before it trusts them after a crash."""
        self.next_offset = next_offset
        self._note_max_timestamp()
        self._seal_indexes()
        if self._preallocate:
            with contextlib.suppress(OSError):  # what is left over costs space, and nothing else
                self.file.cut(self.size)

    def _seal_indexes(self) -> None:
        self.offset_index.seal()
        self.time_index.seal()

    def _sync_indexes(self) -> None:
        for index in (self.offset_index, self.time_index):
            if index.unsynced is not None:
                with syncing():
                    self._fs.fdatasync(index.unsynced.fd)
                index.synced(index.version)

    def cut(self, position: int) -> None:
        """Drops everything from `position` on, from the disk too. The indexes are the caller's concern."""
        self._first_timestamp = None
        self.size = position  # first: whatever the disk answers, nobody may read further
        handle = self.file.cut(position)
        self._fs.fdatasync(handle.fd)

    def remove(self) -> None:
        """The names go; readers that hold the file keep it."""
        self.file.retire()
        for path in segment_files(self._fs, posixpath.dirname(self.file.path), self.base_offset):
            self._fs.unlink(path)

    def sync_files(self, *, indexes: bool) -> list[OpenFile]:
        files = [self.file.handle]
        if indexes:
            held = [index.unsynced for index in (self._offset_index, self._time_index) if index is not None]
            files += [file for file in held if file is not None]
        return files

    @property
    def is_trimmed(self) -> bool:
        """Whether its index files hold their entries and nothing else."""
        return all(index is not None and index.is_trimmed for index in (self._offset_index, self._time_index))

    @property
    def is_unsynced(self) -> bool:
        """Whether any of its files is held open until a round covers it."""
        return any(one is not None and one.is_unsynced for one in (self.file, self._offset_index, self._time_index))

    def unsynced(self, *, indexes: bool) -> list[tuple[Unsynced, int]]:
        """What a round with `sync_files` covers, each with its version now: to be told `synced` with that when it is over."""
        found: list[tuple[Unsynced, int]] = [(self.file, self.file.version)]
        if indexes:
            found += [(index, index.version) for index in (self._offset_index, self._time_index) if index is not None]
        return found

    # --- reading

    @_mending
    def find(self, offset: int) -> BatchPlace | None:
        """The first batch that ends at or after `offset`."""
        position = 0
        slot = self.offset_index.floor(offset - self.base_offset)
        if slot >= 0:
            relative, position = self.offset_index.entry(slot)
            if not self._is_true(relative, position):
                self._make_indexes_again(takes_more=self._takes_more)
                return self.find(offset)
        for place in self.walk(position, self.size):
            if place.last_offset >= offset:
                return place
        return None

    @_mending
    def position_for_timestamp(self, timestamp: int) -> int:
        """A batch's start before which every batch is older than `timestamp`."""
        slot = self.time_index.floor(timestamp - 1)
        if slot < 0:
            return 0
        found, relative = self.time_index.entry(slot)
        place = self.find(self.base_offset + relative)
        if place is not None and place.max_timestamp == found:
            return place.position
        self._make_indexes_again(takes_more=self._takes_more)
        slot = self.time_index.floor(timestamp - 1)
        place = self.find(self.base_offset + self.time_index.entry(slot)[1]) if slot >= 0 else None
        return place.position if place is not None else 0

    @_mending
    def hint_for(self, offset: int) -> int:
        """Where the offset index says that a batch begins which is not behind `offset`'s. Nothing is read but the index."""
        slot = self.offset_index.floor(offset - self.base_offset)
        return self.offset_index.entry(slot)[1] if slot >= 0 else 0

    @_mending
    def hint_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """A position, and the (last offset, greatest timestamp) of a batch behind it: all before are older, if it is true."""
        slot = self.time_index.floor(timestamp - 1)
        if slot < 0:
            return None
        found, relative = self.time_index.entry(slot)
        return self.hint_for(self.base_offset + relative), self.base_offset + relative, found

    @_mending
    def offset_after(self, position: int) -> int | None:
        """Of the first index entry for a batch that begins at or past `position`: that batch's last offset."""
        index = self.offset_index
        slot = index.floor(position - 1, field=1) + 1
        return self.base_offset + index.entry(slot)[0] if slot < index.count else None

    def _is_true(self, relative: int, position: int) -> bool:
        """An index entry is checked against the batch it names: the file may hold anything after a power cut."""
        if not 0 <= position <= self.size - HEADER_SIZE:
            return False
        return self.last_offset_at(position) - self.base_offset == relative

    def _is_newest(self, timestamp: int, relative: int) -> bool:
        """Whether the last time entry tells the segment's greatest timestamp, by which retention takes it away: the batch that it
        names has it, and none of those that stand behind the last index entry has a greater one."""
        try:
            if timestamp != NO_TIMESTAMP:
                named = self.find(self.base_offset + relative)
                if named is None or named.max_timestamp != timestamp:
                    return False
            offsets = self.offset_index
            position = offsets.entry(offsets.count - 1)[1] if offsets.count else 0
            if offsets.count and not self._is_true(*offsets.entry(offsets.count - 1)):
                return False
            return all(place.max_timestamp <= timestamp for place in self.walk(position, self.size))
        except LogDamaged:
            return True  # batches that cannot be read do not tell; neither would they make a better index
