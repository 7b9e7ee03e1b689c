"""One partition's log: segments on one disk, appended at the end, read anywhere. It is synchronous, and one thread uses it.

It has two numbers: `log_end_offset` (written) and `durable_offset` (on disk, see `sync_targets`). The log's owner keeps the high
watermark. Offsets are absolute, sizes bytes.
"""

import contextlib
import errno
import logging
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile

from libs.clock import Clock
from libs.commitlog.checkpoints.leader_epochs import FILE_NAME as EPOCHS
from libs.commitlog.files import contiguity
from libs.commitlog.files.filesystem import Buffer, FileSystem
from libs.commitlog.files.page_cache import FIRST_ATTEMPT, NotInPageCache
from libs.commitlog.files.sync import NO_DESCRIPTORS, Lineage, SyncTargets, run_round
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import NO_ROOM, LogDamaged, LogWriteError, OffsetOutOfRange
from libs.commitlog.model.log_checkpoints import NO_CHECKPOINTS, LogCheckpoints
from libs.commitlog.opening.opening import LogOpener, Opened
from libs.commitlog.opening.producer_rewind import producers_at, remove_state_beyond
from libs.commitlog.partition_log.retention import Reason, RetentionPolicy, SegmentFacts, decide_retention
from libs.commitlog.partition_log.segment_rolling import age_ms_max, roll_back, share_out
from libs.commitlog.partition_log.sync_ledger import RESUME_POINT_BYTES, SyncLedger
from libs.commitlog.producers.producer_state import EVICTED_AT_ONCE, ProducerState
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.commitlog.segments.reading import LogReader, Slice
from libs.commitlog.segments.segment import BatchMeta, FileRegistry, Segment
from libs.commitlog.segments.segment_removal import RetiredSegments
from libs.commitlog.segments.swapping import SegmentSwap, slot_of
from libs.commitlog.segments.timestamp_search import (
    TimestampAndOffset,
    TimestampSearch,
    search_max_timestamp,
    search_timestamp,
)
from libs.commitlog.segments.truncation_plan import EVERYTHING, TruncationPlan, plan_truncation, truncate_segments

__all__ = [
    "RESUME_POINT_BYTES",
    "BatchMeta",
    "FileRegistry",
    "Log",
    "Slice",
    "SyncTargets",
    "TimestampAndOffset",
    "TimestampSearch",
]

log = logging.getLogger("log")

LONG_MAX = (1 << 63) - 1

# The disk refused the write, but it is sound: the next append may succeed.
_RETRIABLE = (*NO_ROOM, errno.EFBIG, *NO_DESCRIPTORS)


class Log:
    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, registry: FileRegistry, clock: Clock, opened: Opened
    ) -> None:
        self._fs, self.directory, self.config, self._registry, self._clock = fs, directory, config, registry, clock
        self._segments = opened.segments
        self._reader = LogReader(self._segments)
        self.producers = opened.producers
        self.epochs = opened.epochs
        self.aborted = opened.aborted
        self.scanned_bytes, self.truncated_bytes = opened.scanned_bytes, opened.truncated_bytes
        self.log_end_offset = self._segments[-1].next_offset
        self.log_start_offset = self.next_start_offset = self._segments[0].base_offset
        self.recovery_point = opened.recovery_point
        self.durable_offset = min(self.recovery_point, self.log_end_offset)
        self._lineage = Lineage()
        self.truncated_to = LONG_MAX
        """The lowest end that a truncation left. Code that remembers an offset of this log caps it by this, and then resets
        this."""
        self._failure: str | None = None
        self._broken = False  # the written bytes are unknown: a sync may have failed, so no round may vouch for them any more
        self._active_since_ms = clock.wall_ms()
        self._ledger = SyncLedger(directory, opened)
        for segment in self._segments[:-1]:
            # The segment that the resume point names was unsealed to be resumed, so its indexes must be synced again.
            if segment.next_offset > self.recovery_point or segment.base_offset == opened.resume_segment:
                self._ledger.sealed(segment)

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
        clock: Clock,
        checkpoints: LogCheckpoints = NO_CHECKPOINTS,
        read_bytes_max: int | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> "Log":
        """Opens or creates the log. After a crash this reads what follows the last resume point; after a clean stop, nothing.

        Raises LogDamaged if bytes are missing that were synced; nothing is cut then. Raises RecoveryTooLarge if it would read
        more than `read_bytes_max`. `on_read` is called with the length of each stretch that was read.
        """
        fs.make_directories(directory)
        opener = LogOpener(fs, directory, config, registry, read_bytes_max=read_bytes_max, on_read=on_read)
        opened = opener.open(checkpoints)
        if opened.scanned_bytes and checkpoints.clean:
            log.warning("%s-%d was marked clean, but %d bytes had to be read", topic, partition, opened.scanned_bytes)
        opened_log = cls(fs, directory, config, registry, clock, opened)
        opened_log.next_start_offset = max(checkpoints.log_start_offset, opened_log.log_start_offset)
        opened_log.advance_start()
        return opened_log

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def fs(self) -> FileSystem:
        """The file system that holds the log."""
        return self._fs

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def lineage(self) -> Lineage:
        """The current lineage. There is a new one after each truncation."""
        return self._lineage

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    # --- appending

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchMeta]) -> None:
        """Writes batches, which the buffers hold in order, at the end of the log; one pwritev unless a segment fills up.

        Raises LogWriteError with nothing appended and `producers` as they were. Base offsets may leave gaps, but only upwards.
        """
        if self._failure is not None:
            self.producers.revert()
            raise LogWriteError(self._failure, fatal=True)
        assert batches[0].base_offset >= self.log_end_offset
        active = self._segments[-1]
        total = batches[0].size if len(batches) == 1 else sum([batch.size for batch in batches])
        before = (self.log_end_offset, len(self._segments), active.size)
        try:
            if self._fits(batches, total):
                active.write(buffers, total)
                active.extend(batches)
            else:
                self._append_rolling(buffers, batches)
        except (OSError, LogDamaged) as error:
            self.producers.revert()
            self._undo_append(error, *before)
        self.log_end_offset = batches[-1].last_offset + 1
        self._ledger.bytes_since_resume += total
        producers = self.producers
        producers.commit()
        if producers.entries.count > self.config.producer_ids_max or producers.entries.crowded:
            producers.evict(self.config.producer_ids_max, len(batches) + EVICTED_AT_ONCE)
        if producers.ended:
            self.aborted.ended(self._segments, producers.take_ended())
        if batches[-1].leader_epoch > self.epochs.latest:
            for batch in batches:
                if batch.leader_epoch > self.epochs.latest:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _fits(self, batches: Sequence[BatchMeta], total: int) -> bool:
        """Whether the active segment has room for all batches. Raises OSError if the disk has no room for their index entries."""
        active, config = self._segments[-1], self.config
        if active.size or len(batches) > 1:  # an empty segment accepts any single batch
            if total > config.segment_bytes - active.size:
                return False
            # As in Kafka, the age is that of the first batch in the time of the newer ones, by their greatest timestamps.
            oldest = self._oldest_in(active) if active.size else batches[0].max_timestamp
            newest = batches[0].max_timestamp if len(batches) == 1 else max([batch.max_timestamp for batch in batches])
            age = newest - oldest if oldest >= 0 else self._clock.wall_ms() - self._active_since_ms
            if age > age_ms_max(self.directory, active.base_offset, config):
                return False
        return batches[-1].last_offset - active.base_offset <= RELATIVE_OFFSET_MAX and active.make_room(len(batches), total)

    def _oldest_in(self, active: Segment) -> int:
        """The timestamp of its first batch, -1 if it is not known without waiting for the disk. Retention asks for it, too, and
        has a thread that waits."""
        try:
            with FIRST_ATTEMPT:
                return active.first_timestamp
        except NotInPageCache:
            return -1

    def _append_rolling(self, buffers: Sequence[Buffer], batches: Sequence[BatchMeta]) -> None:
        for batch, share in zip(batches, share_out(buffers, [batch.size for batch in batches]), strict=True):
            if not self._fits([batch], batch.size) and not self._puts_off_roll(batch):
                self.roll()
                self.active.make_room(1, batch.size)
            self.active.write(share, batch.size)
            self.active.extend([batch])
            self.log_end_offset = batch.last_offset + 1

    def _puts_off_roll(self, batch: BatchMeta) -> bool:
        """Whether a full segment accepts the batch all the same. A sealed segment holds its files open until a round has covered
        them. When writers outrun the rounds, no files are left to begin another segment. The next append may roll."""
        active = self.active
        # the bound of positions, too
        if not self._registry.open_files.is_nearly_full or active.size + batch.size > RELATIVE_OFFSET_MAX:
            return False
        return batch.last_offset - active.base_offset <= RELATIVE_OFFSET_MAX and active.make_room(1, batch.size)

    def _undo_append(self, error: OSError | LogDamaged, start_offset: int, segments: int, size: int) -> None:
        """Undoes a failed append. A group that rolled may have left whole batches and new segments. They were never readable, so
        the file that was active is cut to its former size and continues. Always raises LogWriteError."""
        fatal = not isinstance(error, OSError) or error.errno not in _RETRIABLE
        if not fatal and self.log_end_offset != start_offset:
            self._reader.forget()
            try:
                roll_back(self._segments, segments, size, start_offset, self._ledger)
            except (OSError, LogDamaged) as cut_error:
                fatal = True
                log.error("%s: an append could not be undone: %s", self.directory, cut_error)
        self.log_end_offset = start_offset
        if fatal:
            self._break(f"{self.directory} takes no appends until it is opened again: {error}")
        number = error.errno or 0 if isinstance(error, OSError) else 0
        raise LogWriteError(f"{self.directory}: {error}", fatal=fatal, number=number) from error

    def _break(self, failure: str) -> LogWriteError:
        """Stops all appends and rounds: only an opening can tell which bytes are on the disk."""
        self._broken, self._failure = True, failure
        return LogWriteError(failure, fatal=True)

    def roll(self) -> None:
        """Seals the active segment and begins one at the end of the log. Raises OSError and changes nothing if it cannot."""
        active = self.active
        if active.size == 0 and active.base_offset == self.log_end_offset:
            return
        active.make_room_to_seal()
        segment = Segment.create(self._fs, self.directory, self.log_end_offset, self.config, self._registry)
        try:
            active.seal(self.log_end_offset)
        except OSError:
            self._unbegin(segment)
            raise
        self._ledger.sealed(active)
        self._ledger.renamed()
        self._ledger.snapshot(self.log_end_offset, self.producers)
        self._ledger.resume_wanted = True
        self._segments.append(segment)
        self._active_since_ms = self._clock.wall_ms()

    def _unbegin(self, segment: Segment) -> None:
        """Removes a segment that was begun. An empty file that stayed would hide later records of the segment before it. Raises
        LogDamaged."""
        try:
            segment.remove()
        except OSError as error:
            raise LogDamaged(str(self._break(f"{segment.file.path} was begun in vain and cannot be removed: {error}"))) from error

    # --- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        """Reads batches from the one that holds `offset`, never past `end_offset` or a segment's end. None if there are none.

        Raises OffsetOutOfRange, LogDamaged, OSError.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, log_end_offset)
        end_offset = min(end_offset, log_end_offset)
        if offset >= end_offset:
            return None
        return self._reader.read(offset, max_bytes, end_offset, log_end_offset, at_least_one_batch)

    def readable(self, end_offset: int, segments_max: int) -> list[tuple[Segment, int]]:
        """See `LogReader.readable`. Raises LogDamaged, OSError."""
        return self._reader.readable(min(end_offset, self.log_end_offset), self.log_end_offset, segments_max)

    def search_timestamp(self, timestamp: int, end_offset: int) -> TimestampSearch:
        """A search for the first record that is not older than the timestamp, before `end_offset`. Its driver does the steps."""
        return search_timestamp(self._segments, timestamp, self.log_start_offset, min(end_offset, self.log_end_offset))

    def search_max_timestamp(self) -> TimestampSearch:
        """A search for the record with the greatest timestamp. That may lie at or past the high watermark."""
        return search_max_timestamp(self._segments, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset. Before it every transaction has ended, and every in-sync replica knows how: readers of
        committed records may see up to it."""
        unstable = self.producers.transactions.first_unstable(high_watermark)
        return high_watermark if unstable is None else max(min(unstable, high_watermark), self.log_start_offset)

    def aborted_transactions(
        self, piece: Slice, offset: int, end_offset: int, count_max: int = sys.maxsize
    ) -> list[AbortedTransaction]:
        """The aborted transactions that may have batches in `piece`, which was just read from `offset` and not past `end_offset`.
        Of more than `count_max`, one more is told. Raises OSError, LogDamaged."""
        if not self.aborted.has_any:
            return []
        upper_bound = self._reader.upper_bound(piece, min(end_offset, self.log_end_offset))
        return self.aborted.between(self._segments, offset, upper_bound, count_max)

    # --- durability

    def take_over(self, epochs: Sequence[tuple[int, int]], producers: ProducerState) -> None:
        """Takes over the state of a log with the same end, from which this one was copied. That state has more than the remaining
        batches tell."""
        self.epochs.take_over(epochs)
        self.producers = producers
        self._ledger.has_unsaved_state = True

    def sync_targets(self, *, resume_point: bool = False, indexes: bool = False) -> SyncTargets | None:
        """The targets of a sync round that makes everything appended until now durable; None if it is already.

        Now and then, or when asked, the round also leaves a resume point, and so moves the recovery point. `indexes`: the round
        covers the indexes too, so that no file of the log must stay open after it.
        """
        if self._broken:
            return None
        state = self.epochs, self.producers
        return self._ledger.capture(
            self.durable_offset,
            self._segments,
            self.log_end_offset,
            state,
            self._lineage,
            resume_point=resume_point,
            indexes=indexes,
        )

    def mark_synced(self, targets: SyncTargets) -> None:
        """Notes that a round with these targets succeeded. After a truncation in between it has no effect, and another round is
        due."""
        if targets.lineage is not self._lineage or self._broken:
            return
        self.durable_offset = max(self.durable_offset, targets.end_offset)
        self._ledger.settle(targets, self.active)
        if targets.resume_offset >= 0:
            self.recovery_point = targets.resume_offset

    # --- the start

    def expired(self, policy: RetentionPolicy, high_watermark: int, now_ms: int) -> list[Reason]:
        """The reasons for which the oldest segments expire, one for each. If all segments expire, the caller rolls before it
        deletes. It also makes known what appends ask for and must not wait for."""
        with contextlib.suppress(OSError, LogDamaged):
            _ = self.active.first_timestamp
        facts = [SegmentFacts(segment.base_offset, segment.next_offset, segment.size) for segment in self._segments]
        facts[-1] = facts[-1]._replace(end_offset=self.log_end_offset)
        return decide_retention(
            facts,
            lambda index: self._segments[index].latest_ms,
            policy,
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )

    def delete_before(self, offset: int, high_watermark: int) -> None:
        """Announces a new start of the log at `offset`, or later if it starts later already. Raises OffsetOutOfRange.

        This only sets `next_start_offset`. The caller puts that number on disk (LOG_START_OFFSETS) and calls `advance_start`, so
        that no crash takes back a start that was visible. Then follow a sync round and `retire_segments`, which leaves segments
        that the round did not cover to the next time.
        """
        if offset > min(high_watermark, self.log_end_offset):
            raise OffsetOutOfRange(offset, self.log_start_offset, high_watermark)
        self.next_start_offset = max(self.next_start_offset, offset)
        before = [segment for segment in self._segments[:-1] if segment.next_offset <= self.next_start_offset]
        if before and before[-1].base_offset >= self._ledger.resume_segment:
            self._ledger.resume_wanted = True

    def advance_start(self, offset: int | None = None) -> None:
        """Makes the announced start valid, or `offset` of it: as far as it is on disk."""
        self.next_start_offset = max(min(self.next_start_offset, self.log_end_offset), self.log_start_offset)
        offset = self.next_start_offset if offset is None else min(offset, self.next_start_offset)
        self.log_start_offset = max(self.log_start_offset, offset)
        # An empty log remembers the epoch of its last record: elections that compare log ends, and followers, need it.
        self.epochs.truncate_start(min(self.log_start_offset, self.log_end_offset - 1))

    def retire_segments(self) -> RetiredSegments | None:
        """Takes the segments before the log's start out of the log. The caller renames their files. None if there are none.

        Segments from which a crash would recover stay until a newer resume point is on disk. Producers are remembered: they are
        no older than the snapshot with which the first remaining segment begins.
        """
        may_go = takewhile(lambda segment: segment.next_offset <= self.log_start_offset, self._segments[:-1])
        count = sum(segment.base_offset < self._ledger.resume_segment for segment in may_go)
        if not count:
            return None
        retired = self._segments[:count]
        del self._segments[:count]
        self._reader.forget()
        self.aborted.forget([segment.base_offset for segment in retired])
        self._ledger.retired(retired, self._segments[0].base_offset)
        for segment in retired:
            self._registry.remove(segment.file)
        return RetiredSegments(self.directory, tuple(segment.base_offset for segment in retired))

    # --- cleaned segments

    @property
    def active_age_ms(self) -> int:
        """The milliseconds since this process last rolled the log."""
        return self._clock.wall_ms() - self._active_since_ms

    def want_resume_point(self, offset: int) -> bool:
        """Whether recovery begins in a segment at or after `offset`. If not, the next sync round leaves a resume point."""
        if self._ledger.resume_segment < offset:
            self._ledger.resume_wanted = True
        return self._ledger.resume_segment >= offset

    def plan_swap(self, sources: Sequence[Segment], size: int) -> SegmentSwap | None:
        """A swap for an output of so many bytes. None if a source has left the log, or if recovery would begin with one of
        them."""
        if slot_of(self._segments, sources) < 0 or self._broken or self._ledger.resume_segment < sources[-1].next_offset:
            return None
        bases, end_offset = tuple(segment.base_offset for segment in sources), sources[-1].next_offset
        ledger = self._ledger
        return SegmentSwap(
            self.directory,
            bases,
            end_offset,
            size,
            resume_offset=ledger.newest_resume_point,
            lineage=self._lineage,
            unlisted=ledger.unlisted_swaps,
        )

    def replace_segments(self, swap: SegmentSwap, sources: Sequence[Segment]) -> bool:
        """Replaces `sources` by the staged output. False if the log has changed meanwhile; then nothing changes.

        Raises OSError with nothing changed, or LogWriteError: the log then refuses appends until it is reopened.
        """
        slot = slot_of(self._segments, sources)
        if slot < 0 or swap.lineage is not self._lineage or self._broken:
            return False
        try:
            swap.perform(self._fs)
        except LogDamaged as error:
            raise self._break(str(error)) from error
        output = Segment(self._fs, self.directory, swap.base_offset, self.config, self._registry)
        output.size, output.next_offset = swap.size, swap.end_offset
        self._segments[slot : slot + len(sources)] = [output]
        self._reader.forget()
        self.aborted.replaced(swap.sources, swap.base_offset, swap.transaction_index)
        self._ledger.swapped(swap.noted, swap.sources[1:], swap.resume_offset)
        for segment in sources:
            segment.is_replaced = True
            self._registry.remove(segment.file)
        return True

    # --- cutting and ending

    def truncate_to(self, offset: int) -> int:
        """Drops all records from `offset` on and returns the new end: `offset`, or the start of the batch that holds it.

        It cuts, syncs and rolls, since inodes are append-only. Raises LogWriteError; the log then refuses appends until it is
        reopened.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_end(self.log_end_offset)
            return self.log_end_offset
        try:
            offset = max(offset, self.log_start_offset)
            self._cut(plan_truncation(self._segments, self._reader.find(offset), offset, self.log_start_offset))
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: a truncation failed half-way: {error}") from error
        return self.log_end_offset

    def begin_anew(self, base_offset: int, start_offset: int) -> None:
        """Begins the log anew, empty, at `base_offset`, which may lie before its start.

        The caller has put the new start on disk (LOG_START_OFFSETS), and no high watermark beyond the old one: after a crash in
        this method, an opening continues from there. Raises LogWriteError; the log then refuses appends until it is reopened.
        """
        try:
            if self._fs.exists(path := f"{self.directory}/{EPOCHS}"):
                self._fs.unlink(path)
            self.epochs.truncate_end(0)
            self.aborted.forget(list(self.aborted.counts))
            self._cut(EVERYTHING._replace(end_offset=base_offset))
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: it could not begin anew: {error}") from error
        self.log_start_offset = self.next_start_offset = start_offset

    def skip_to(self, offset: int) -> None:
        """Moves the log's end to `offset`, since the leader has no records before it and the gap may be wider than a segment. It
        blocks.

        Raises LogWriteError; the log then refuses appends until it is reopened.
        """
        try:
            contiguity.allow_gaps_before(self._fs, self.directory, offset)
            self.log_end_offset = offset
            self.roll()
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: it could not skip to {offset}: {error}") from error

    def _cut(self, cut: TruncationPlan) -> None:
        end_offset = cut.end_offset
        self._lineage.end()
        self._lineage = self._lineage.continued(end_offset)
        remove_state_beyond(self._fs, self.directory, cut.resumes_max, cut.snapshots_max)
        remaining = truncate_segments(self._fs, self.directory, self._segments, cut)
        self._fs.fsync_directory(self.directory)
        active = Segment.create(self._fs, self.directory, end_offset, self.config, self._registry)
        self._segments[:] = [*remaining, active]
        self._reader.forget()
        self.log_end_offset = end_offset
        self.truncated_to = min(self.truncated_to, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.epochs.truncate_end(end_offset)
        ids_max = self.config.producer_ids_max
        before, self.producers = self.producers, producers_at(self._fs, self.directory, remaining, end_offset, ids_max)
        self.producers.transactions.inherit(before.transactions, end_offset)
        before.entries.discard()
        self.aborted.cut(self._segments, end_offset)
        self._ledger.cut(cut.resumes_max, remaining, self.recovery_point)
        self._ledger.snapshot(end_offset, self.producers)
        self._active_since_ms = self._clock.wall_ms()

    def close(self, *, clean: bool) -> None:
        """Closes the log, which cannot be used afterwards. `clean`: everything is synced, so that the next opening reads nothing.
        Raises OSError."""
        targets = self.last_targets() if clean else None
        self._failure = f"{self.directory} is closed"
        if targets is not None:
            run_round([targets], self._fs, self.directory)
            self.mark_synced(targets)

    def last_targets(self) -> SyncTargets | None:
        """The targets of one round that closes many logs cleanly. The log cannot be used afterwards. None if it is unchanged
        since its opening. Raises OSError."""
        if self._broken:
            raise OSError(errno.EIO, self._failure)
        self._failure = f"{self.directory} is closed"
        if self.active.is_as_opened and self.sync_targets(resume_point=True) is None:
            return None
        self.active.seal(self.log_end_offset)
        # A resume point of this end may be there, from before the seal: it lacks the time entry that the next start relies on.
        self._ledger.has_unsaved_state = True
        if self.log_end_offset > self._segments[0].base_offset:
            self._ledger.snapshot(self.log_end_offset, self.producers)
        else:  # an opening makes its indexes anew
            for file, version in self.active.unsynced(indexes=True):
                file.synced(version)
        return self.sync_targets(resume_point=True)

    def delete(self) -> None:
        """Deletes the names of all files. Readers that hold one may finish. The log cannot be used afterwards."""
        self._failure = f"{self.directory} is deleted"
        self._fs.remove_tree(self.directory)
