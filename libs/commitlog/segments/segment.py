"""One segment: a `.log` file of batches and its two indexes, from its beginning to its end.

The last segment of a log is active: its indexes take entries, and are preallocated when the first one comes. The others are
sealed. All open on demand, and close when others were used more lately (see `libs/commitlog/open_files.py`).
No byte that was readable is ever written again (append-only inodes): a segment grows, or is cut and sealed, or goes.
"""

import contextlib
import posixpath
from collections.abc import Sequence

from libs.commitlog.config import LogConfig
from libs.commitlog.file_names import segment_files
from libs.commitlog.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.segment_batches import BatchMeta
from libs.commitlog.segment_file import FileRegistry, SegmentFile
from libs.commitlog.segment_indexes import IndexedBatches, mending
from libs.commitlog.sync import Unsynced

__all__ = ["BatchMeta", "FileRegistry", "Segment", "SegmentFile"]


class Segment(IndexedBatches):
    """Its batches and their indexes, as a log begins, fills, seals, cuts, syncs and reads them."""

    __slots__ = ("_preallocate", "next_offset")

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, config: LogConfig, registry: FileRegistry) -> None:
        super().__init__(fs, directory, base_offset, config, registry)
        self.next_offset = base_offset
        """Of a sealed segment: the first offset after it. The active one's is the log's end."""
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
        """By which retention tells its age: its greatest timestamp, or when the file was last written if it has none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._fs.modified_ms(self.file.path)

    # --- growing

    def write(self, buffers: Sequence[Buffer], total_bytes: int) -> None:
        """At the end, where nothing is readable yet. Raises OSError with nothing left behind, or LogDamaged if it cannot cut."""
        self.file.write(buffers, total_bytes, self.size)

    def extend(self, batches: Sequence[BatchMeta]) -> None:
        """The batches that were just written; `make_room` was asked before."""
        if not self.size:
            self._first_timestamp = batches[0].max_timestamp
        self.size = self.note_batches(batches, self.size)

    # --- ending

    @mending
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

    # --- what is not on disk yet

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
        if self.file.is_unsynced:
            return True
        offsets, times = self._offset_index, self._time_index
        return (offsets is not None and offsets.is_unsynced) or (times is not None and times.is_unsynced)

    def unsynced(self, *, indexes: bool) -> list[tuple[Unsynced, int]]:
        """What a round with `sync_files` covers, each with its version now: to be told `synced` with that when it is over."""
        found: list[tuple[Unsynced, int]] = [(self.file, self.file.version)]
        if indexes:
            found += [(index, index.version) for index in (self._offset_index, self._time_index) if index is not None]
        return found

    # --- reading

    @mending
    def hint_for(self, offset: int) -> int:
        """Where the offset index says that a batch begins which is not behind `offset`'s. Nothing is read but the index."""
        slot = self.offset_index.floor(offset - self.base_offset)
        return self.offset_index.entry(slot)[1] if slot >= 0 else 0

    @mending
    def hint_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """A position, and the (last offset, greatest timestamp) of a batch behind it: all before are older, if it is true."""
        slot = self.time_index.floor(timestamp - 1)
        if slot < 0:
            return None
        found, relative = self.time_index.entry(slot)
        return self.hint_for(self.base_offset + relative), self.base_offset + relative, found

    @mending
    def offset_after(self, position: int) -> int | None:
        """Of the first index entry for a batch that begins at or past `position`: that batch's last offset."""
        index = self.offset_index
        slot = index.floor(position - 1, field=1) + 1
        return self.base_offset + index.entry(slot)[0] if slot < index.count else None
