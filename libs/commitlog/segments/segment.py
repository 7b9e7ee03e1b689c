"""One segment: a `.log` file of batches and its two indexes, from its beginning to its end.

The last segment of a log is active: its indexes accept entries, and are preallocated when the first one comes. The others are
sealed. All open on demand, and close when others were used more recently (see `libs/commitlog/files/open_files.py`). No readable
byte is ever written again (append-only inodes): a segment grows, or is cut and sealed, or is removed.
"""

import contextlib
import posixpath
from bisect import bisect_right
from collections.abc import Sequence

from libs.commitlog.files.file_names import segment_files
from libs.commitlog.files.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.files.sync import Unsynced
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.segments.segment_batches import BatchMeta
from libs.commitlog.segments.segment_file import FileRegistry, SegmentFile
from libs.commitlog.segments.segment_indexes import IndexedBatches, repairing_indexes

__all__ = ["BatchMeta", "FileRegistry", "Segment", "SegmentFile", "slot_for"]


class Segment(IndexedBatches):
    """A segment: its batches and their indexes, as a log begins, fills, seals, cuts, syncs and reads them."""

    __slots__ = ("_preallocate", "next_offset")

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, config: LogConfig, registry: FileRegistry) -> None:
        super().__init__(fs, directory, base_offset, config, registry)
        self.next_offset = base_offset
        """The first offset after a sealed segment. For the active one, the log's end."""
        self._preallocate = config.preallocate

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
    def latest_ms(self) -> int:
        """The time from which retention counts its age: its greatest timestamp, or the file's last write if it has none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._fs.modified_ms(self.file.path)

    # --- growing

    def write(self, buffers: Sequence[Buffer], total_bytes: int) -> None:
        """Writes at the end, where nothing is readable yet. Raises OSError with nothing left behind, or LogDamaged if it cannot
        cut."""
        self.file.write(buffers, total_bytes, self.size)

    def extend(self, batches: Sequence[BatchMeta]) -> None:
        """Adds the batches that were just written. `make_room` was called before."""
        if not self.size:
            self._first_timestamp = batches[0].max_timestamp
        self.size = self.note_batches(batches, self.size)

    # --- ending

    @repairing_indexes
    def make_room_to_seal(self) -> None:
        """Prepares `seal`, which then needs no space and writes nothing. Raises OSError."""
        if self._owes_time_entry():
            self.time_index.make_room(1)
            self._note_max_timestamp()
            self.time_index.flush()

    def seal(self, next_offset: int) -> None:
        """Ends the segment and trims its indexes. After a crash they count only if the caller has synced them."""
        self.next_offset = next_offset
        self._note_max_timestamp()
        self._seal_indexes()
        if self._preallocate:
            with contextlib.suppress(OSError):  # the rest only costs space
                self.file.cut(self.size)

    def cut(self, position: int) -> None:
        """Drops everything from `position` on, from the disk too. The indexes are the caller's concern."""
        self._first_timestamp = None
        self.size = position  # this comes first: whatever the disk answers, no reader may go further
        handle = self.file.cut(position)
        self._fs.fdatasync(handle.fd)

    def remove(self) -> None:
        """Removes the names. Readers that hold the file keep it."""
        self.file.retire()
        for path in segment_files(self._fs, posixpath.dirname(self.file.path), self.base_offset):
            self._fs.unlink(path)

    # --- what is not on disk yet

    def sync_files(self, *, indexes: bool) -> list[OpenFile]:
        files = [self.file.handle]
        if indexes:
            held = [index.unsynced for index in (self._offset_index, self._time_index) if index is not None]
            files += [file for file in held if file is not None]
        return files

    @property
    def is_as_opened(self) -> bool:
        """Whether nothing was written to it since its opening, and its index files hold their entries and nothing else."""
        indexes = self._offset_index, self._time_index
        return self.file.version == 0 and all(index is not None and index.is_trimmed for index in indexes)

    @property
    def is_unsynced(self) -> bool:
        """Whether any of its files is held open until a round covers it."""
        if self.file.is_unsynced:
            return True
        offsets, times = self._offset_index, self._time_index
        return (offsets is not None and offsets.is_unsynced) or (times is not None and times.is_unsynced)

    def unsynced(self, *, indexes: bool) -> list[tuple[Unsynced, int]]:
        """The files that a round with `sync_files` covers, each with its version now. Call `synced` with that when the round is
        over."""
        files: list[tuple[Unsynced, int]] = [(self.file, self.file.version)]
        if indexes:
            files += [(index, index.version) for index in (self._offset_index, self._time_index) if index is not None]
        return files

    # --- reading

    @repairing_indexes
    def hint_for(self, offset: int) -> int:
        """The position of a batch that begins at or before `offset`, by the offset index alone."""
        slot = self.offset_index.floor(offset - self.base_offset)
        return self.offset_index.entry(slot)[1] if slot >= 0 else 0

    @repairing_indexes
    def hint_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """A position, and the (last offset, greatest timestamp) of a batch behind it. If the index is right, all batches before
        the position are older."""
        slot = self.time_index.floor(timestamp - 1)
        if slot < 0:
            return None
        entry_timestamp, relative = self.time_index.entry(slot)
        return self.hint_for(self.base_offset + relative), self.base_offset + relative, entry_timestamp

    @repairing_indexes
    def offset_after(self, position: int) -> int | None:
        """The last offset of the first indexed batch that begins at or past `position`. None if there is none, or if its entry
        is wrong or cannot be checked: a wrong one may name an offset before `position`."""
        index = self.offset_index
        slot = index.floor(position - 1, field=1) + 1
        if slot >= index.count:
            return None
        relative, indexed_position = index.entry(slot)
        try:
            return self.base_offset + relative if self._is_true(relative, indexed_position) else None
        except (OSError, LogDamaged):  # the bytes before `position` may be sound all the same
            return None


def slot_for(segments: Sequence[Segment], offset: int) -> int:
    """The index of the segment that would hold `offset`."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)
