"""One partition's log: segments on one disk, appended at the end, read anywhere. Synchronous, used by one thread.

Three numbers: `log_end_offset` (written), `durable_offset` (on disk, see `sync_targets`), `high_watermark` (what the owner lets
others see; the log only keeps it at most at its end). Offsets are absolute, sizes bytes.
"""

import errno
import logging
from collections.abc import Sequence

from libs.commitlog import epochs as epoch_file
from libs.commitlog import resume
from libs.commitlog.config import LogConfig
from libs.commitlog.durable_files import FileWrite
from libs.commitlog.errors import LogDamaged, LogWriteError, OffsetOutOfRange
from libs.commitlog.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.opening import SNAPSHOT_SUFFIX, LogOpener, Opened
from libs.commitlog.producer_snapshot import format_snapshot
from libs.commitlog.reading import FoundTimestamp, LogReader, Slice
from libs.commitlog.resume import ResumePoint, format_resume
from libs.commitlog.rewinding import producers_at, remove_state_beyond
from libs.commitlog.segment import RELATIVE_OFFSET_MAX, BatchMeta, FileRegistry, Segment
from libs.commitlog.sync import SyncTargets, parent_directory, run_round

__all__ = ["RESUME_POINT_BYTES", "BatchMeta", "FileRegistry", "FoundTimestamp", "Log", "Slice", "SyncTargets"]

log = logging.getLogger(__name__)

RESUME_POINT_BYTES = 64 * 1024 * 1024
"""A sync round that finds so much since the last resume point leaves a new one: what a crash makes us read again is bounded."""

# The disk said no, but it is sound: the next append may succeed.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Log:
    def __init__(self, fs: FileSystem, directory: str, config: LogConfig, registry: FileRegistry, opened: Opened) -> None:
        self._fs, self.directory, self.config, self._registry = fs, directory, config, registry
        self._segments = opened.segments
        self._reader = LogReader(self._segments)
        self.producers = opened.producers
        self.epochs = opened.epochs
        self.scanned_bytes, self.cut_bytes = opened.scanned_bytes, opened.cut_bytes
        self.log_end_offset = self._segments[-1].next_offset
        self.log_start_offset = self._segments[0].base_offset
        self.high_watermark = self.log_start_offset
        self.recovery_point = opened.recovery_point
        self.durable_offset = min(self.recovery_point, self.log_end_offset)
        self._generation = 0
        self._failure: str | None = None
        # What a sync round must cover besides the active segment: sealed files, and names that changed.
        unsynced = [s for s in self._segments[:-1] if s.next_offset > self.recovery_point]
        self._unsynced: dict[OpenFile, None] = {file: None for s in unsynced for file in s.sync_files(indexes=True)}
        self._unsynced_directories: dict[str, None] = {}
        self._names_version = 0
        self._pending_writes: dict[str, FileWrite] = {}
        self._saved_epochs_version = 0 if not opened.created else -1
        self._resume_wanted = opened.scanned_bytes > 0
        self._bytes_since_resume = opened.scanned_bytes
        self._resume_points = opened.resume_points
        if opened.created:
            self._unsynced_directories = {parent_directory(directory): None, directory: None}
        elif opened.scanned_bytes:
            self._unsynced_directories = {directory: None}

    @classmethod
    def open(
        cls,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        fs: FileSystem,
        *,
        registry: FileRegistry,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> "Log":
        """Opens or creates. After a crash this reads what follows the last resume point; after a clean stop that is nothing.

        `recovery_point` is the directory checkpoint's, and only counts after a clean stop without a resume point, as in a
        directory that Kafka wrote. Raises LogDamaged if bytes are missing that were synced; nothing is cut then.
        """
        fs.make_directories(directory)
        opened = LogOpener(fs, directory, config, registry).open(recovery_point if clean else 0, log_start_offset)
        if opened.scanned_bytes and clean:
            log.warning("%s-%d was said to be clean, yet %d bytes had to be read", topic, partition, opened.scanned_bytes)
        found = cls(fs, directory, config, registry, opened)
        found.log_start_offset = min(max(log_start_offset, found.log_start_offset), found.log_end_offset)
        found.high_watermark = found.log_start_offset
        return found

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def bytes_since_resume_point(self) -> int:
        return self._bytes_since_resume

    # --- appending

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchMeta]) -> None:
        """Writes batches, which the buffers hold in order, at the end of the log; one pwritev unless a segment fills up.

        Raises LogWriteError with nothing appended and `producers` as they were. Base offsets may leave gaps, but only upwards.
        """
        if self._failure is not None:
            self.producers.revert()
            raise LogWriteError(self._failure, fatal=True)
        assert batches[0].base_offset >= self.log_end_offset
        before = (self.log_end_offset, len(self._segments), self.active.size)
        total = sum([batch.size for batch in batches])
        try:
            if self._fits(batches, total):
                self.active.write(buffers, total)
                self.active.extend(batches)
            else:
                self._append_rolling(buffers, batches)
        except (OSError, LogDamaged) as error:
            self.producers.revert()
            self._undo_append(error, *before)
        self.log_end_offset = batches[-1].last_offset + 1
        self._bytes_since_resume += total
        self.producers.commit()
        if batches[-1].leader_epoch > self.epochs.latest:
            for batch in batches:
                if batch.leader_epoch > self.epochs.latest:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _fits(self, batches: Sequence[BatchMeta], total: int) -> bool:
        """Whether the active segment takes all of them. Raises OSError if the disk has no room for their index entries."""
        active, config = self._segments[-1], self.config
        if active.size == 0:
            if total > config.segment_bytes and len(batches) > 1:
                return False
        elif total > config.segment_bytes - active.size:
            return False
        else:
            oldest, age_max = active.first_timestamp, config.segment_ms - config.segment_jitter_ms
            if oldest >= 0 and max([batch.max_timestamp for batch in batches]) - oldest > age_max:
                return False
        return batches[-1].last_offset - active.base_offset <= RELATIVE_OFFSET_MAX and active.make_room(len(batches), total)

    def _append_rolling(self, buffers: Sequence[Buffer], batches: Sequence[BatchMeta]) -> None:
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        for batch in batches:
            if not self._fits([batch], batch.size):
                self.roll()
                self.active.make_room(1, batch.size)
            share: list[memoryview] = []
            missing = batch.size
            while missing:
                part = rest[0][:missing]
                share.append(part)
                missing -= len(part)
                if len(part) == len(rest[0]):
                    del rest[0]
                else:
                    rest[0] = rest[0][len(part) :]
            self.active.write(share, batch.size)
            self.active.extend([batch])
            self.log_end_offset = batch.last_offset + 1

    def _undo_append(self, error: OSError | LogDamaged, start_offset: int, segments: int, size: int) -> None:
        """A group that rolled may have left whole batches and new segments. Nobody has read them, so the file that was active
        is cut where it was and goes on. Always raises LogWriteError."""
        fatal = not isinstance(error, OSError) or error.errno not in _PASSING
        if not fatal and self.log_end_offset != start_offset:
            begun = self._segments[segments:]
            del self._segments[segments:]
            self._reader.forget()
            try:
                self.active.cut(size)
                for segment in reversed(begun):
                    self._pending_writes.pop(f"{self.directory}/{segment.base_offset:020d}{SNAPSHOT_SUFFIX}", None)
                    segment.remove()
                self.active.trim_indexes(start_offset)
            except (OSError, LogDamaged) as cut_error:
                fatal = True
                log.error("%s: an append could not be undone: %s", self.directory, cut_error)
        self.log_end_offset = start_offset
        if fatal:
            self._failure = f"{self.directory} takes no appends until it is opened again: {error}"
        raise LogWriteError(f"{self.directory}: {error}", fatal=fatal) from error

    def roll(self) -> None:
        """Seals the active segment and begins one at the end of the log. Raises OSError and changes nothing if it cannot."""
        active = self.active
        if active.size == 0 and active.base_offset == self.log_end_offset:
            return
        segment = Segment.create(self._fs, self.directory, self.log_end_offset, self.config, self._registry)
        active.seal(self.log_end_offset)
        self._unsynced.update(dict.fromkeys(active.sync_files(indexes=True)))
        self._segments.append(segment)
        self._unsynced_directories[self.directory] = None
        self._names_version += 1
        self._resume_wanted = True
        path = f"{self.directory}/{self.log_end_offset:020d}{SNAPSHOT_SUFFIX}"
        self._pending_writes[path] = FileWrite(path, format_snapshot(self.producers.as_of(self.log_end_offset)))

    # --- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        """Batches from the one that holds `offset`, never past `end_offset` or a segment's end. None if there are none.

        Raises OffsetOutOfRange, LogDamaged, OSError.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, log_end_offset)
        end_offset = min(end_offset, log_end_offset)
        if offset >= end_offset:
            return None
        return self._reader.read(offset, max_bytes, end_offset, log_end_offset, at_least_one_batch)

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> FoundTimestamp | None:
        """The first record at least as late, before `end_offset`."""
        return self._reader.offset_for_timestamp(timestamp, self.log_start_offset, min(end_offset, self.log_end_offset))

    def max_timestamp(self) -> FoundTimestamp | None:
        """The record with the greatest timestamp. It may lie at or past the high watermark."""
        return self._reader.max_timestamp(self.log_end_offset)

    def epoch_for(self, offset: int) -> int:
        return self.epochs.epoch_for(offset)

    # --- durability

    def sync_targets(self, *, resume_point: bool = False) -> SyncTargets | None:
        """What a sync round must do so that everything appended until now is durable; None if it is already.

        Now and then, or when asked, the round also leaves a resume point and so moves the recovery point.
        """
        resume_point = resume_point or self._resume_wanted or self._bytes_since_resume >= RESUME_POINT_BYTES
        resume_point = resume_point and self.log_end_offset > self.log_start_offset
        resume_point = resume_point and self.log_end_offset not in self._resume_points
        epochs_changed = self.epochs.version != self._saved_epochs_version and bool(self.epochs.entries())
        dirty = self.log_end_offset > self.durable_offset or self._unsynced or self._unsynced_directories
        if not (dirty or resume_point or epochs_changed or self._pending_writes):
            return None
        files = dict(self._unsynced)
        files.update(dict.fromkeys(self.active.sync_files(indexes=resume_point)))
        writes = list(self._pending_writes.values())
        if epochs_changed:
            writes.append(FileWrite(f"{self.directory}/{epoch_file.FILE_NAME}", self.epochs.format()))
        removals: tuple[str, ...] = ()
        if resume_point:
            writes.append(self._resume_write())
            # The one before stays, so that a truncation below this one need not read the whole log again.
            removals = tuple(self._resume_path(offset) for offset in self._resume_points[:-1])
        return SyncTargets(
            end_offset=self.log_end_offset,
            files=tuple(files),
            sealed=tuple(self._unsynced),
            directories=tuple(self._unsynced_directories),
            writes=tuple(writes),
            removals=removals,
            resume_offset=self.log_end_offset if resume_point else -1,
            generation=self._generation,
            epochs_version=self.epochs.version,
            names_version=self._names_version,
        )

    def mark_synced(self, targets: SyncTargets) -> None:
        """A round with these targets succeeded. After a truncation in between it says nothing, and another round is due."""
        if targets.generation != self._generation:
            return
        self.durable_offset = max(self.durable_offset, targets.end_offset)
        for file in targets.sealed:
            self._unsynced.pop(file, None)
        if targets.names_version == self._names_version:
            self._unsynced_directories.clear()
        for write in targets.writes:
            self._pending_writes.pop(write.path, None)
        self._saved_epochs_version = max(self._saved_epochs_version, targets.epochs_version)
        if targets.resume_offset >= 0:
            self.recovery_point = targets.resume_offset
            self._resume_points = [*self._resume_points[-1:], targets.resume_offset]
            self._bytes_since_resume = 0
            self._resume_wanted = self.active.base_offset > targets.resume_offset

    def _resume_write(self) -> FileWrite:
        point = ResumePoint(self.log_end_offset, self.active.progress, self.producers.as_of(self.log_end_offset))
        return FileWrite(self._resume_path(self.log_end_offset), format_resume(point))

    def _resume_path(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{resume.SUFFIX}"

    # --- cutting and ending

    def truncate_to(self, offset: int) -> int:
        """Drops everything from `offset` on and returns the new end: `offset`, or the start of the batch that holds it.

        Cuts, syncs and rolls (append-only inodes). Raises LogWriteError; the log then takes no appends until it is reopened.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_end(self.log_end_offset)
            return self.log_end_offset
        try:
            self._cut(max(offset, self.log_start_offset))
        except (OSError, LogDamaged) as error:
            self._failure = f"{self.directory}: a truncation failed half-way: {error}"
            raise LogWriteError(self._failure, fatal=True) from error
        return self.log_end_offset

    def _cut(self, offset: int) -> None:
        found = self._reader.find(offset)
        if found is None:
            slot, position, end_offset = len(self._segments) - 1, self.active.size, offset
        else:
            segment, place = found
            slot, position, end_offset = self._segments.index(segment), place.position, min(offset, place.base_offset)
        self._generation += 1
        remove_state_beyond(self._fs, self.directory, end_offset)
        for segment in reversed(self._segments[slot + 1 :]):
            segment.remove()
        kept, last = self._segments[:slot], self._segments[slot]
        if position == 0 and last.base_offset >= end_offset:
            last.remove()
        else:
            last.cut(position)
            last.trim_indexes(end_offset)
            last.seal(end_offset)
            kept.append(last)
        self._fs.fsync_directory(self.directory)
        fresh = Segment.create(self._fs, self.directory, end_offset, self.config, self._registry)
        self._segments[:] = [*kept, fresh]
        self._reader.forget()
        self.log_end_offset = end_offset
        self.durable_offset = min(self.durable_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.epochs.truncate_end(end_offset)
        self.producers = producers_at(self._fs, self.directory, kept, end_offset)
        self._pending_writes.clear()
        self._resume_points = [point for point in self._resume_points if point <= end_offset]
        self._resume_wanted = True
        self._unsynced = {file: None for s in kept if s.next_offset > self.recovery_point for file in s.sync_files(indexes=True)}
        self._unsynced_directories[self.directory] = None
        self._names_version += 1

    def close(self, *, clean: bool) -> None:
        """`clean`: everything is synced, so that the next opening reads nothing. Raises OSError. Not usable afterwards."""
        self._failure = f"{self.directory} is closed"
        if clean:
            self.active.seal(self.log_end_offset)
            self._resume_wanted = True
            path = f"{self.directory}/{self.log_end_offset:020d}{SNAPSHOT_SUFFIX}"
            self._pending_writes[path] = FileWrite(path, format_snapshot(self.producers.as_of(self.log_end_offset)))
            targets = self.sync_targets(resume_point=True)
            if targets is not None:
                run_round([targets], self._fs, self.directory)
                self.mark_synced(targets)

    def delete(self) -> None:
        """The names of all files go; readers that hold one keep it. Not usable afterwards."""
        self._failure = f"{self.directory} is deleted"
        self._fs.remove_tree(self.directory)
