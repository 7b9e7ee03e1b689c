"""The opening of a log: its files, the point to resume at, and the whole part of the rest."""

import logging
from collections.abc import Callable

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files import contiguity
from libs.commitlog.files.durable_files import FileWrite
from libs.commitlog.files.file_names import (
    INDEX,
    LEFTOVERS,
    LOG,
    RESUME,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    path_of,
)
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import parent_directory, sync_files, syncing
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import RecoveryTooLarge
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.opening import recovery
from libs.commitlog.opening.aborted_transactions import AbortedTransactions
from libs.commitlog.opening.losses import ACCEPTED, Losses
from libs.commitlog.opening.offset_gap_filler import OffsetGapFiller
from libs.commitlog.opening.resume_points import ResumePoint
from libs.commitlog.opening.saved_state import SavedState
from libs.commitlog.opening.segment_list import find_missing
from libs.commitlog.producers.producer_snapshot import snapshot_content
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.segment import FileRegistry, Segment
from libs.commitlog.segments.segment_progress import SegmentProgress
from libs.commitlog.segments.swapping import finish_swaps
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.batches import NO_TIMESTAMP

log = logging.getLogger("log")


@dataclass(slots=True)
class Opened:
    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    recovery_point: int
    """Everything before it is known to be on disk. Later records were found, and may be in memory only."""
    created: bool
    resume_points: list[int]
    resume_segment: int
    """The base of the segment that the newest resume point names; -1 if there is none."""
    aborted: AbortedTransactions
    snapshots: list[FileWrite]
    """Producer snapshots between segments that a crash destroyed. The next sync round writes them."""
    scanned_bytes: int
    truncated_bytes: int
    removals: tuple[str, ...] = ()
    """Files that are removed once a round has covered everything that was found."""


class LogOpener:
    """The opening of one partition's directory. Use it once. `read_bytes_max`: if there is more to read, it raises
    RecoveryTooLarge instead."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        registry: FileRegistry,
        *,
        read_bytes_max: int | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._fs, self._directory, self._config, self._registry = fs, directory, config, registry
        self._read_bytes_max, self._on_read = read_bytes_max, on_read
        self._saved = SavedState(fs, directory, [])
        self._scanned_bytes = 0
        self._truncated_bytes = 0
        self._snapshots: list[FileWrite] = []
        self._scanned_from = 0
        self._clean = False
        self._losses = Losses(directory, accepted=False)

    def open(self, checkpoints: LogCheckpoints) -> Opened:
        """Opens the log, or creates it where the directory is empty.

        Raises LogDamaged if what was synced is not there, RecoveryTooLarge, OSError if the disk refuses.
        """
        clean, log_start_offset = checkpoints.clean, checkpoints.log_start_offset
        recovery_point = checkpoints.recovery_point if clean else 0
        self._clean = clean
        self._sweep()
        self._losses = Losses(self._directory, accepted=ACCEPTED in self._saved.names)
        segments = self._list_segments()
        if not clean and (segments or contiguity.FILE_NAME in self._saved.names):
            self._settle(segments)
        self._saved.name_resume_points()
        self._losses.synced_to = self._synced_to(segments, checkpoints.committed_offset)
        point = self._saved.newest_resume_point(segments, log_start_offset)
        if not segments:
            if point is not None or self._losses.synced_to > max(log_start_offset, 0):
                self._losses.report(f"no segment is left, offsets up to {self._losses.synced_to - 1} were synced")
            self._saved.remove_useless(0, -1)
            return self._create(max(log_start_offset, self._losses.synced_to if self._losses.accepted else 0))
        if point is not None:
            start_offset = log_start_offset if checkpoints.is_start_known else max(log_start_offset, segments[0].base_offset)
            self._check_segments(point, segments, start_offset)
        if self._losses.accepted:
            point, recovery_point = None, 0
            self._prepare_for_losses(segments)
        if point is None:
            segments, producers, epochs = self._recover_from_segment_start(segments, recovery_point)
            recovery_point = max(min(recovery_point, segments[-1].next_offset), segments[0].base_offset)
        else:
            segments = self._drop_before(log_start_offset, point, segments)
            segments, producers, epochs = self._recover_from(point, segments)
            recovery_point = point.offset
        self._losses.ends_at(segments[-1].next_offset, segments[-1].file.path, segments[-1].size)
        if self._losses.accepted:
            skipper = OffsetGapFiller(self._fs, self._directory, self._config, self._registry)
            skipper.skip_to(self._losses.synced_to, epochs.latest, segments)
        if segments[-1].next_offset < log_start_offset:
            return self._start_over(log_start_offset, segments)
        resume_points = self._saved.remove_useless(segments[0].base_offset, segments[-1].next_offset)
        epochs.truncate_end(segments[-1].next_offset)
        resume_segment = point.segment.base_offset if point is not None else -1
        aborted = AbortedTransactions(self._fs, self._directory, self._saved.offsets_of(TRANSACTION_INDEX))
        expected = point.aborted if point is not None else {}
        if expected:  # the cleaner may have dropped some of them since
            cleaned_to = contiguity.contiguous_from(self._fs, self._directory)
            expected = {base: count for base, count in expected.items() if base >= cleaned_to}
        checksums = point.checksums_of({segment.base_offset: segment.size for segment in segments}) if point is not None else {}
        aborted.opened(segments, self._scanned_from, producers.take_ended(), expected, checksums)
        return Opened(
            segments,
            producers,
            epochs,
            recovery_point,
            created=False,
            resume_points=resume_points,
            resume_segment=resume_segment,
            aborted=aborted,
            snapshots=self._snapshots,
            scanned_bytes=self._scanned_bytes,
            truncated_bytes=self._truncated_bytes,
            removals=self._removals(),
        )

    def _create(self, offset: int) -> Opened:
        contiguity.begin_contiguous(self._fs, self._directory)
        segment = Segment.create(self._fs, self._directory, offset, self._config, self._registry)
        aborted = AbortedTransactions(self._fs, self._directory)
        return Opened(
            [segment],
            ProducerState(),
            LeaderEpochs(),
            offset,
            created=True,
            resume_points=[],
            resume_segment=-1,
            aborted=aborted,
            snapshots=[],
            scanned_bytes=0,
            truncated_bytes=0,
            removals=self._removals(),
        )

    def _removals(self) -> tuple[str, ...]:
        return (f"{self._directory}/{ACCEPTED}",) if self._losses.accepted else ()

    def _synced_to(self, segments: list[Segment], committed_offset: int) -> int:
        """The offset up to which the log was synced. The name of a resume point says it even if its content is damaged. Of a log
        that Kafka wrote, only the committed offset is known."""
        points = self._saved.offsets_of(RESUME)
        is_ours = points or contiguity.FILE_NAME in self._saved.names or not segments
        return max([*points, committed_offset if is_ours else 0])

    def _check_segments(self, point: ResumePoint, segments: list[Segment], log_start_offset: int) -> None:
        """Checks by names and sizes that the segments for which the resume point vouches are there."""
        sizes = {segment.base_offset: segment.size for segment in segments}
        if any(sizes.get(base) != size for base, size in point.before):
            swaps = contiguity.read_contiguity(self._fs, self._directory).swaps
            end_offset = point.segment.base_offset
            for missing in find_missing(point.before, end_offset, sizes, log_start_offset=log_start_offset, swaps=swaps):
                self._losses.report(str(missing))
        if (missing_tail := point.missing(sizes)) is not None:
            self._losses.report(str(missing_tail))

    def _prepare_for_losses(self, segments: list[Segment]) -> None:
        """Removes saved state that vouches for more than there is. After that, gaps no longer make an opening cut what follows
        them."""
        self._saved.forget_resume_points()
        gaps_before = max(segments[-1].base_offset, self._losses.synced_to)
        with syncing():
            self._fs.fsync_directory(self._directory)
            contiguity.allow_gaps_before(self._fs, self._directory, gaps_before)

    def _start_over(self, offset: int, segments: list[Segment]) -> Opened:
        """Begins the log anew, empty, at its start offset, as Kafka does. All records that were found had been deleted before the
        crash, and later ones are lost. Their offsets must not be given again."""
        log.warning("%s ends at %d, before its start: begun anew at %d", self._directory, segments[-1].next_offset, offset)
        self._saved.forget_all()
        with syncing():
            self._fs.fsync_directory(self._directory)  # they vouch for segments
        for segment in segments:
            segment.remove()
        return self._create(offset)

    def _drop_before(self, log_start_offset: int, point: ResumePoint, segments: list[Segment]) -> list[Segment]:
        """The segments without those that had left the log already, as far as their names tell."""
        removed = 0
        while removed + 1 < len(segments) and segments[removed + 1].base_offset <= log_start_offset:
            if segments[removed].base_offset >= point.segment.base_offset:
                break
            segments[removed].remove()
            removed += 1
        if removed:
            log.info("%s: %d segments before the log's start removed", self._directory, removed)
        return segments[removed:]

    def _sweep(self) -> None:
        """Removes temporary files that the last process left."""
        names = self._fs.list_directory(self._directory)
        if any(name.endswith(SWAP) for name in names):
            finish_swaps(self._fs, self._directory)
            names = self._fs.list_directory(self._directory)
        for name in names:
            if name.endswith(LEFTOVERS):
                self._fs.unlink(f"{self._directory}/{name}")
        self._saved = SavedState(self._fs, self._directory, [name for name in names if not name.endswith(LEFTOVERS)])

    def _settle(self, segments: list[Segment]) -> None:
        """Makes a truncation durable that a killed process may have left in the page cache only. After new appends and a power
        cut, some of the cut records would otherwise be back behind the new ones."""
        handle = segments[-1].file.handle if segments else None  # opened first, since that may fail without consequence
        with syncing():
            if handle is not None:
                self._fs.fdatasync(handle.fd)
            self._fs.fsync_directory(self._directory)

    def _list_segments(self) -> list[Segment]:
        bases = sorted(self._saved.offsets_of(LOG))
        segments = []
        for base in bases:
            segment = Segment(self._fs, self._directory, base, self._config, self._registry)
            segment.size = self._fs.size_of(segment.file.path)
            segments.append(segment)
        for segment, base in zip(segments, bases[1:], strict=False):
            segment.next_offset = base
        for suffix in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
            for orphan in set(self._saved.offsets_of(suffix)).difference(bases):
                self._fs.unlink(path_of(self._directory, orphan, suffix))
        return segments

    def _recover_from(self, point: ResumePoint, segments: list[Segment]) -> tuple[list[Segment], ProducerState, LeaderEpochs]:
        at = next(i for i, segment in enumerate(segments) if segment.base_offset == point.segment.base_offset)
        segment = segments[at]
        self._check_read_bound(sum(listed.size for listed in segments[at:]) - point.segment.size)
        producers, epochs = ProducerState(point.producers), self._saved.read_epochs(segments[: at + 1], point.segment.size)
        epochs.truncate_end(point.offset)  # later epochs may predate a truncation; the batches decide
        ended_there = self._clean and segment is segments[-1] and segment.size == point.segment.size
        if not segment.resume_indexes(point.segment, closed=ended_there):
            self._check_read_bound(point.segment.size)
            segment.rebuild_indexes(point.segment.size)
        whole = self._scan(segments[at:], point.segment.size, point.offset, (epochs, producers), point.offset)
        return segments[:at] + whole, producers, epochs

    def _recover_from_segment_start(
        self, segments: list[Segment], recovery_point: int
    ) -> tuple[list[Segment], ProducerState, LeaderEpochs]:
        """Recovers a log without a resume point, as one that Kafka wrote. It reads whole segments, as Kafka does."""
        at = max((i for i, segment in enumerate(segments) if segment.base_offset <= recovery_point), default=0)
        self._check_read_bound(sum(segment.size for segment in segments[at:]))
        epochs = self._saved.read_epochs(segments[: at + 1], 0)
        epochs.truncate_end(segments[at].base_offset)
        producers, snapshot_offset = self._saved.newest_snapshot(segments[0].base_offset, segments[at].base_offset)
        older = [segment for segment in segments[:at] if segment.next_offset > snapshot_offset]
        recovery.replay_headers(
            older, max(snapshot_offset, 0), segments[at].base_offset, producers, self._config.producer_ids_max
        )
        nothing = SegmentProgress(segments[at].base_offset, 0, 0, 0, NO_TIMESTAMP, segments[at].base_offset, 0)
        if not (self._clean and segments[at].size == 0 and segments[at].resume_indexes(nothing, closed=True)):
            segments[at].begin_indexes()
        contiguous_from = contiguity.contiguous_from(self._fs, self._directory)
        whole = self._scan(segments[at:], 0, segments[at].base_offset, (epochs, producers), contiguous_from)
        return segments[:at] + whole, producers, epochs

    def _scan(
        self,
        segments: list[Segment],
        position: int,
        next_offset: int,
        state: tuple[LeaderEpochs, ProducerState],
        contiguous_from: int,
    ) -> list[Segment]:
        """Checks the segments in order and returns those that stay. The first is resumed at `position`, the last becomes active.

        Our own segments begin at the end of the one before. A gap there is the lost end of a file whose size never reached the
        disk. Before `contiguous_from`, Kafka's cleaner or ours may have made the gap.
        """
        self._scanned_from = next_offset
        for index, segment in enumerate(segments):
            if index:
                segment.begin_indexes()
                position = 0
            begin = max(next_offset, segment.base_offset)
            if segment.size == position and index == len(segments) - 1:
                segment.next_offset = begin  # nothing to read, so it need not be opened
                return segments
            segment.file.for_writing()  # bytes of the last process may be in memory only
            excess = recovery.scan(self._fs, segment, position, begin, state, self._config.producer_ids_max, self._on_read)
            self._scanned_bytes += segment.size - position
            next_offset = segment.next_offset
            rest = segments[index + 1 :]
            torn = excess > 0
            if rest and next_offset != rest[0].base_offset:
                torn = torn or rest[0].base_offset > contiguous_from or next_offset > rest[0].base_offset
            if torn:
                self._losses.ends_at(next_offset, segment.file.path, segment.size)
                if self._losses.accepted and rest and next_offset <= rest[0].base_offset:
                    self._cut(segment, excess, [])
                    torn = False
                else:
                    self._cut(segment, excess, rest)
            if torn or not rest:
                return segments[: index + 1]
            segment.seal(rest[0].base_offset)
            self._note_snapshot(rest[0].base_offset, state[1])
            if self._registry.open_files.crowded:
                self._sync_sealed(segments[: index + 1])
        raise AssertionError("a log has a segment")

    def _sync_sealed(self, sealed: list[Segment]) -> None:
        """Syncs sealed segments, so that they need not stay open: a crash may have left more of them than this process may hold
        open."""
        dirty = [segment for segment in sealed if segment.is_unsynced]
        files = [file for segment in dirty for file in segment.sync_files(indexes=True)]
        with syncing():
            sync_files(files, self._fs, parent_directory(self._directory))
        for segment in dirty:
            for unsynced, version in segment.unsynced(indexes=True):
                unsynced.synced(version)

    def _check_read_bound(self, total_bytes: int) -> None:
        if self._read_bytes_max is not None and total_bytes > self._read_bytes_max:
            raise RecoveryTooLarge(total_bytes)

    def _note_snapshot(self, offset: int, producers: ProducerState) -> None:
        """Notes the snapshot of a roll again. The roll left it to the next sync round, and the crash may have come first."""
        path = path_of(self._directory, offset, SNAPSHOT)
        if not self._fs.exists(path):
            self._snapshots.append(FileWrite(path, snapshot_content(producers.as_of(offset))))

    def _cut(self, segment: Segment, excess: int, later: list[Segment]) -> None:
        log.warning(
            "%s cut at byte %d, offset %d: %d bytes and %d later segments were not whole",
            segment.file.path,
            segment.size,
            segment.next_offset,
            excess,
            len(later),
        )
        self._truncated_bytes += excess + sum(later_segment.size for later_segment in later)
        for later_segment in reversed(later):
            later_segment.remove()
        with syncing():
            self._fs.fsync_directory(self._directory)
            segment.cut(segment.size)
