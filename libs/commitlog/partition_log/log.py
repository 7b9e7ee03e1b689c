"""One partition's log: segments on one disk, appended at the end, read anywhere. Synchronous, used by one thread.

Three numbers: `log_end_offset` (written), `durable_offset` (on disk, see `sync_targets`), `high_watermark` (what the owner lets
others see; the log only keeps it at most at its end). Offsets are absolute, sizes bytes.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from itertools import takewhile

from libs.clock import Clock
from libs.commitlog import gapless
from libs.commitlog.config import LogConfig
from libs.commitlog.cutting import EVERYTHING, Cut, cut_segments, plan_cut
from libs.commitlog.epochs import FILE_NAME as EPOCHS
from libs.commitlog.errors import LogDamaged, LogWriteError, OffsetOutOfRange
from libs.commitlog.filesystem import Buffer, FileSystem
from libs.commitlog.index import RELATIVE_OFFSET_MAX
from libs.commitlog.opening import LogOpener, Opened
from libs.commitlog.producers import ProducerState
from libs.commitlog.reading import FoundTimestamp, LogReader, Slice, TimestampSearch
from libs.commitlog.retention import Reason, RetentionPolicy, SegmentFacts, decide_retention
from libs.commitlog.retiring import RetiredSegments
from libs.commitlog.rewinding import producers_at, remove_state_beyond
from libs.commitlog.rolling import age_ms_max, roll_back, share_out
from libs.commitlog.segment import BatchMeta, FileRegistry, Segment
from libs.commitlog.swapping import SegmentSwap, slot_of
from libs.commitlog.sync import NO_DESCRIPTORS, Lineage, SyncTargets, run_round
from libs.commitlog.sync_ledger import RESUME_POINT_BYTES, SyncLedger
from libs.commitlog.transaction_index import AbortedTransaction

__all__ = ["RESUME_POINT_BYTES", "BatchMeta", "FileRegistry", "FoundTimestamp", "Log", "Slice", "SyncTargets", "TimestampSearch"]

log = logging.getLogger(__name__)

LONG_MAX = (1 << 63) - 1

# The disk said no, but it is sound: the next append may succeed.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, *NO_DESCRIPTORS)


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
        self.scanned_bytes, self.cut_bytes = opened.scanned_bytes, opened.cut_bytes
        self.log_end_offset = self._segments[-1].next_offset
        self.log_start_offset = self.next_start_offset = self._segments[0].base_offset
        self.high_watermark = self.log_start_offset
        self.recovery_point = opened.recovery_point
        self.durable_offset = min(self.recovery_point, self.log_end_offset)
        self._lineage = Lineage()
        self.cut_to = LONG_MAX
        """The lowest end that a truncation left. Whoever remembers an offset of this log caps it, and sets this back."""
        self._failure: str | None = None
        self._broken = False  # what is written is not known: a sync may have failed, so no round may vouch for it any more
        self._active_since_ms = clock.wall_ms()
        self._ledger = SyncLedger(directory, opened)
        for segment in self._segments[:-1]:
            # The one that the resume point names was unsealed to be resumed: its indexes must be synced again.
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
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        committed_offset: int = 0,
        is_start_known: bool = True,
        read_bytes_max: int | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> "Log":
        """Opens or creates. After a crash this reads what follows the last resume point; after a clean stop that is nothing.

        `recovery_point` is the directory checkpoint's, and only counts after a clean stop without a resume point, as in a
        directory that Kafka wrote. Raises LogDamaged if bytes are missing that were synced; nothing is cut then. MuchToRead: it
        would read more than `read_bytes_max`. `on_read` hears of each stretch that was read.
        """
        fs.make_directories(directory)
        opener = LogOpener(fs, directory, config, registry, read_bytes_max=read_bytes_max, on_read=on_read)
        opened = opener.open(
            *(recovery_point if clean else 0, log_start_offset),
            clean=clean,
            committed_offset=committed_offset,
            is_start_known=is_start_known,
        )
        if opened.scanned_bytes and clean:
            log.warning("%s-%d was said to be clean, yet %d bytes had to be read", topic, partition, opened.scanned_bytes)
        found = cls(fs, directory, config, registry, clock, opened)
        found.next_start_offset = max(log_start_offset, found.log_start_offset)
        found.advance_start()
        return found

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def lineage(self) -> Lineage:
        """Another one after each truncation."""
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
        self.producers.commit()
        if self.producers.ended:
            self.aborted.ended(self._segments, self.producers.take_ended())
        if batches[-1].leader_epoch > self.epochs.latest:
            for batch in batches:
                if batch.leader_epoch > self.epochs.latest:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _fits(self, batches: Sequence[BatchMeta], total: int) -> bool:
        """Whether the active segment takes all of them. Raises OSError if the disk has no room for their index entries."""
        active, config = self._segments[-1], self.config
        if active.size or len(batches) > 1:  # an empty segment takes any one batch
            if total > config.segment_bytes - active.size:
                return False
            # As in Kafka: the age is that of the first batch as the newer ones see it, by their greatest timestamps.
            oldest = active.first_timestamp if active.size else batches[0].max_timestamp
            newest = batches[0].max_timestamp if len(batches) == 1 else max([batch.max_timestamp for batch in batches])
            age = newest - oldest if oldest >= 0 else self._clock.wall_ms() - self._active_since_ms
            if age > age_ms_max(self.directory, active.base_offset, config):
                return False
        return batches[-1].last_offset - active.base_offset <= RELATIVE_OFFSET_MAX and active.make_room(len(batches), total)

    def _append_rolling(self, buffers: Sequence[Buffer], batches: Sequence[BatchMeta]) -> None:
        for batch, share in zip(batches, share_out(buffers, [batch.size for batch in batches]), strict=True):
            if not self._fits([batch], batch.size) and not self._puts_off_roll(batch):
                self.roll()
                self.active.make_room(1, batch.size)
            self.active.write(share, batch.size)
            self.active.extend([batch])
            self.log_end_offset = batch.last_offset + 1

    def _puts_off_roll(self, batch: BatchMeta) -> bool:
        """Whether a full segment takes it all the same: each that is sealed holds its files open until a round has covered them,
        and when writers outrun the rounds there are none left to begin another with. The next append may roll."""
        active = self.active
        if not self._registry.open_files.is_tight or active.size + batch.size > RELATIVE_OFFSET_MAX:  # of positions, too
            return False
        return batch.last_offset - active.base_offset <= RELATIVE_OFFSET_MAX and active.make_room(1, batch.size)

    def _undo_append(self, error: OSError | LogDamaged, start_offset: int, segments: int, size: int) -> None:
        """A group that rolled may have left whole batches and new segments. Nobody has read them, so the file that was active
        is cut where it was and goes on. Always raises LogWriteError."""
        fatal = not isinstance(error, OSError) or error.errno not in _PASSING
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
        raise LogWriteError(f"{self.directory}: {error}", fatal=fatal) from error

    def _break(self, failure: str) -> LogWriteError:
        """No appends and no rounds from now on: only an opening can tell what is on the disk."""
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
        """Left behind, an empty file would hide what the segment before it goes on to hold. Raises LogDamaged."""
        try:
            segment.remove()
        except OSError as error:
            raise LogDamaged(str(self._break(f"{segment.file.path} was begun in vain and cannot be removed: {error}"))) from error

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

    def readable(self, end_offset: int, segments_max: int) -> list[tuple[Segment, int]]:
        """See `LogReader.readable`. Raises LogDamaged, OSError."""
        return self._reader.readable(min(end_offset, self.log_end_offset), self.log_end_offset, segments_max)

    def search_timestamp(self, timestamp: int, end_offset: int) -> TimestampSearch:
        """For the first record at least as late, before `end_offset`. Whoever drives it opens the batches, wherever."""
        return self._reader.search_timestamp(timestamp, self.log_start_offset, min(end_offset, self.log_end_offset))

    def search_max_timestamp(self) -> TimestampSearch:
        """For the record with the greatest timestamp. It may lie at or past the high watermark."""
        return self._reader.search_max_timestamp(self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Before it, every transaction has ended, and everyone in sync knows how: what readers of committed records may see."""
        unstable = self.producers.transactions.first_unstable(high_watermark)
        return high_watermark if unstable is None else max(min(unstable, high_watermark), self.log_start_offset)

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Of which `piece`, which was just read from `offset` and not past `end_offset`, may hold batches. Raises OSError,
        LogDamaged."""
        upper_bound = self._reader.upper_bound(piece, min(end_offset, self.log_end_offset))
        return self.aborted.between(self._segments, offset, upper_bound)

    # --- durability

    def take_over(self, epochs: Sequence[tuple[int, int]], producers: ProducerState) -> None:
        """What a log with the same end knows, from which this one was copied: more than the batches that it still has tell."""
        self.epochs.take_over(epochs)
        self.producers = producers
        self._ledger.knows_more = True

    def sync_targets(self, *, resume_point: bool = False, indexes: bool = False) -> SyncTargets | None:
        """What a sync round must do so that everything appended until now is durable; None if it is already.

        Now and then, or when asked, the round also leaves a resume point and so moves the recovery point. `indexes`: it covers
        them too, so that nothing of the log must stay open after it.
        """
        if self._broken:
            return None
        state = self.epochs, self.producers
        return self._ledger.capture(
            *(self.durable_offset, self._segments, self.log_end_offset, state, self._lineage),
            resume_point=resume_point,
            indexes=indexes,
        )

    def mark_synced(self, targets: SyncTargets) -> None:
        """A round with these targets succeeded. After a truncation in between it says nothing, and another round is due."""
        if targets.lineage is not self._lineage or self._broken:
            return
        self.durable_offset = max(self.durable_offset, targets.end_offset)
        self._ledger.settle(targets, self.active)
        if targets.resume_offset >= 0:
            self.recovery_point = targets.resume_offset

    # --- the start

    def expired(self, policy: RetentionPolicy, high_watermark: int, now_ms: int) -> list[Reason]:
        """Why each of the oldest segments has had its time. If it is all of them, the caller rolls before it deletes."""
        facts = [SegmentFacts(segment.base_offset, segment.next_offset, segment.size) for segment in self._segments]
        facts[-1] = facts[-1]._replace(end_offset=self.log_end_offset)
        return decide_retention(
            *(facts, lambda index: self._segments[index].latest_ms, policy),
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )

    def delete_before(self, offset: int, high_watermark: int) -> None:
        """The log is to start at `offset`, or later if it does already. Raises OffsetOutOfRange.

        This only announces `next_start_offset`. The caller puts that number on disk (LOG_START_OFFSETS) and calls
        `advance_start`, so that no start that anyone has seen goes back in a crash; then come a sync round and
        `retire_segments`, which leaves what the round did not cover to the next time.
        """
        if offset > min(high_watermark, self.log_end_offset):
            raise OffsetOutOfRange(offset, self.log_start_offset, high_watermark)
        self.next_start_offset = max(self.next_start_offset, offset)
        before = [segment for segment in self._segments[:-1] if segment.next_offset <= self.next_start_offset]
        if before and before[-1].base_offset >= self._ledger.resume_segment:
            self._ledger.resume_wanted = True

    def advance_start(self, offset: int | None = None) -> None:
        """What was announced holds from now on, or `offset` of it: as far as it is on disk."""
        self.next_start_offset = max(min(self.next_start_offset, self.log_end_offset), self.log_start_offset)
        offset = self.next_start_offset if offset is None else min(offset, self.next_start_offset)
        self.log_start_offset = max(self.log_start_offset, offset)
        self.high_watermark = max(self.high_watermark, self.log_start_offset)
        # Of an empty log the last record's epoch is remembered: an election by logs, and followers, compare by it.
        self.epochs.truncate_start(min(self.log_start_offset, self.log_end_offset - 1))

    def retire_segments(self) -> RetiredSegments | None:
        """Takes the segments before the log's start out of the log; the caller renames their files. None if there are none.

        What a crash would be recovered from stays until a newer resume point is on disk. Producers are remembered: they are no
        older than the snapshot with which the first segment that stays begins.
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
        """For how long this process has not rolled it."""
        return self._clock.wall_ms() - self._active_since_ms

    def want_resume_point(self, offset: int) -> bool:
        """Whether the segment that recovery begins with lies at or after `offset`. If not, the next sync round sees to it."""
        if self._ledger.resume_segment < offset:
            self._ledger.resume_wanted = True
        return self._ledger.resume_segment >= offset

    def plan_swap(self, sources: Sequence[Segment], size: int) -> SegmentSwap | None:
        """For an output of so many bytes. None if not all of them are here, or if recovery would begin with one of them."""
        if slot_of(self._segments, sources) < 0 or self._broken or self._ledger.resume_segment < sources[-1].next_offset:
            return None
        bases, end_offset = tuple(segment.base_offset for segment in sources), sources[-1].next_offset
        ledger = self._ledger
        return SegmentSwap(
            *(self.directory, bases, end_offset, size, ledger.newest_resume_point, self._lineage, ledger.unlisted_swaps)
        )

    def replace_segments(self, swap: SegmentSwap, sources: Sequence[Segment]) -> bool:
        """What was staged takes the place of `sources`. False if the log has changed meanwhile, and changes nothing.

        Raises OSError with nothing changed, or LogWriteError: the log then takes no appends until it is reopened.
        """
        slot = slot_of(self._segments, sources)
        if slot < 0 or swap.lineage is not self._lineage or self._broken:
            return False
        try:
            swap.perform(self._fs)
        except LogDamaged as error:
            raise self._break(str(error)) from error
        fresh = Segment(self._fs, self.directory, swap.base_offset, self.config, self._registry)
        fresh.size, fresh.next_offset = swap.size, swap.end_offset
        self._segments[slot : slot + len(sources)] = [fresh]
        self._reader.forget()
        self.aborted.replaced(swap.sources, swap.base_offset)
        self._ledger.swapped(swap.noted, swap.sources[1:], swap.resume_offset)
        for segment in sources:
            segment.is_replaced = True
            self._registry.remove(segment.file)
        return True

    # --- cutting and ending

    def truncate_to(self, offset: int) -> int:
        """Drops everything from `offset` on and returns the new end: `offset`, or the start of the batch that holds it.

        Cuts, syncs and rolls (append-only inodes). Raises LogWriteError; the log then takes no appends until it is reopened.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_end(self.log_end_offset)
            return self.log_end_offset
        try:
            offset = max(offset, self.log_start_offset)
            self._cut(plan_cut(self._segments, self._reader.find(offset), offset, self.log_start_offset))
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: a truncation failed half-way: {error}") from error
        return self.log_end_offset

    def begin_anew(self, base_offset: int, start_offset: int) -> None:
        """Nothing of the log stays: it goes on, empty, at `base_offset`, which may lie before its start. The caller has put the
        new start on disk (LOG_START_OFFSETS), and no high watermark beyond the old one: after a crash within, an opening goes on
        from there. Raises LogWriteError; the log then takes no appends until it is reopened.
        """
        try:
            if self._fs.exists(path := f"{self.directory}/{EPOCHS}"):
                self._fs.unlink(path)
            self.epochs.truncate_end(0)
            self.aborted.forget(list(self.aborted.counts))
            self._cut(EVERYTHING._replace(end_offset=base_offset))
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: it could not begin anew: {error}") from error
        self.log_start_offset = self.next_start_offset = self.high_watermark = start_offset

    def skip_to(self, offset: int) -> None:
        """The log ends at `offset` now: a leader has nothing before, and the gap may be wider than a segment. Blocks.

        Raises LogWriteError; the log then takes no appends until it is reopened.
        """
        try:
            gapless.allow_gaps_before(self._fs, self.directory, offset)
            self.log_end_offset = offset
            self.roll()
        except (OSError, LogDamaged) as error:
            raise self._break(f"{self.directory}: it could not skip to {offset}: {error}") from error

    def _cut(self, cut: Cut) -> None:
        end_offset = cut.end_offset
        self._lineage.end()
        self._lineage = self._lineage.continued(end_offset)
        remove_state_beyond(self._fs, self.directory, cut.resumes_max, cut.snapshots_max)
        kept = cut_segments(self._fs, self.directory, self._segments, cut)
        self._fs.fsync_directory(self.directory)
        fresh = Segment.create(self._fs, self.directory, end_offset, self.config, self._registry)
        self._segments[:] = [*kept, fresh]
        self._reader.forget()
        self.log_end_offset = end_offset
        self.cut_to = min(self.cut_to, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.epochs.truncate_end(end_offset)
        before, self.producers = self.producers, producers_at(self._fs, self.directory, kept, end_offset)
        self.producers.transactions.inherit(before.transactions, end_offset)
        self.aborted.cut(self._segments, end_offset)
        self._ledger.cut(cut.resumes_max, kept, self.recovery_point)
        self._ledger.snapshot(end_offset, self.producers)
        self._active_since_ms = self._clock.wall_ms()

    def close(self, *, clean: bool) -> None:
        """`clean`: everything is synced, so that the next opening reads nothing. Raises OSError. Not usable afterwards."""
        targets = self.last_targets() if clean else None
        self._failure = f"{self.directory} is closed"
        if targets is not None:
            run_round([targets], self._fs, self.directory)
            self.mark_synced(targets)

    def last_targets(self) -> SyncTargets | None:
        """For a clean `close` of many logs at once: what a round must do for it, after which the log is not usable. None if it is
        as it was opened. Raises OSError."""
        if self._broken:
            raise OSError(errno.EIO, self._failure)
        self._failure = f"{self.directory} is closed"
        if self.active.is_trimmed and self.sync_targets(resume_point=True) is None:
            return None
        self.active.seal(self.log_end_offset)
        if self.log_end_offset > self._segments[0].base_offset:
            self._ledger.snapshot(self.log_end_offset, self.producers)
        else:  # its indexes are made anew when it is opened
            for one, version in self.active.unsynced(indexes=True):
                one.synced(version)
        return self.sync_targets(resume_point=True)

    def delete(self) -> None:
        """The names of all files go; readers that hold one keep it. Not usable afterwards."""
        self._failure = f"{self.directory} is deleted"
        self._fs.remove_tree(self.directory)
