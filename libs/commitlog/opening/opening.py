"""Opening a log: which files are there, where to resume, and what of the rest is whole."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from libs.commitlog import gapless, recovery
from libs.commitlog.aborted import AbortedTransactions
from libs.commitlog.config import LogConfig
from libs.commitlog.durable_files import FileWrite
from libs.commitlog.epochs import LeaderEpochs
from libs.commitlog.errors import MuchToRead
from libs.commitlog.file_names import (
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
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.losses import ACCEPTED, Losses
from libs.commitlog.producer_snapshot import format_snapshot
from libs.commitlog.producers import ProducerState
from libs.commitlog.resume import ResumePoint, SegmentProgress
from libs.commitlog.saved_state import SavedState
from libs.commitlog.segment import FileRegistry, Segment
from libs.commitlog.segment_list import find_missing
from libs.commitlog.skipping import Skipper
from libs.commitlog.swapping import finish_swaps
from libs.commitlog.sync import parent_directory, sync_files, syncing
from libs.wire.batches import NO_TIMESTAMP

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    recovery_point: int
    """What is known to be on disk; everything after it was found, but may still be in memory only."""
    created: bool
    resume_points: list[int]
    resume_segment: int
    """The base of the segment that the newest of them names; -1 if there is none."""
    aborted: AbortedTransactions
    snapshots: list[FileWrite]
    """Producer snapshots between segments that a crash took; the next sync round writes them."""
    scanned_bytes: int
    cut_bytes: int
    removals: tuple[str, ...] = ()
    """What goes once a round has covered what was found."""


class LogOpener:
    """Opens one partition's directory. Use once. `read_bytes_max`: if there is more to read, MuchToRead is raised instead."""

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
        self._cut_bytes = 0
        self._snapshots: list[FileWrite] = []
        self._scanned_from = 0
        self._clean = False
        self._losses = Losses(directory, accepted=False)

    def open(
        self,
        recovery_point: int,
        log_start_offset: int,
        *,
        clean: bool,
        committed_offset: int = 0,
        is_start_known: bool = True,
    ) -> Opened:
        """`committed_offset`: everything before it was durable once. `is_start_known`: the log's start is not older than said.

        Raises LogDamaged if what was synced is not there, MuchToRead, OSError if the disk refuses.
        """
        self._clean = clean
        self._sweep()
        self._losses = Losses(self._directory, accepted=ACCEPTED in self._saved.names)
        segments = self._list_segments()
        if not clean and (segments or gapless.FILE_NAME in self._saved.names):
            self._settle(segments)
        self._saved.name_resume_points()
        self._losses.synced_to = self._synced_to(segments, committed_offset)
        point = self._saved.newest_resume_point(segments, log_start_offset)
        if not segments:
            if point is not None or self._losses.synced_to > max(log_start_offset, 0):
                self._losses.found(f"no segment is left, offsets up to {self._losses.synced_to - 1} were synced")
            self._saved.remove_useless(0, -1)
            return self._create(max(log_start_offset, self._losses.synced_to if self._losses.accepted else 0))
        if point is not None:
            start_offset = log_start_offset if is_start_known else max(log_start_offset, segments[0].base_offset)
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
            skipper = Skipper(self._fs, self._directory, self._config, self._registry)
            skipper.skip_to(self._losses.synced_to, epochs.latest, segments)
        if segments[-1].next_offset < log_start_offset:
            return self._start_over(log_start_offset, segments)
        resume_points = self._saved.remove_useless(segments[0].base_offset, segments[-1].next_offset)
        epochs.truncate_end(segments[-1].next_offset)
        resume_segment = point.segment.base_offset if point is not None else -1
        aborted = AbortedTransactions(self._fs, self._directory, self._saved.offsets_of(TRANSACTION_INDEX))
        expected = point.aborted if point is not None else {}
        if expected:  # the cleaner may have dropped some since
            cleaned_to = gapless.gapless_from(self._fs, self._directory)
            expected = {base: count for base, count in expected.items() if base >= cleaned_to}
        checksums = point.checksums_of({one.base_offset: one.size for one in segments}) if point is not None else {}
        aborted.opened(segments, self._scanned_from, producers.take_ended(), expected, checksums)
        return Opened(
            *(segments, producers, epochs, recovery_point, False, resume_points, resume_segment, aborted),
            *(self._snapshots, self._scanned_bytes, self._cut_bytes, self._removals()),
        )

    def _create(self, offset: int) -> Opened:
        gapless.begin_gapless(self._fs, self._directory)
        segment = Segment.create(self._fs, self._directory, offset, self._config, self._registry)
        aborted = AbortedTransactions(self._fs, self._directory)
        return Opened([segment], ProducerState(), LeaderEpochs(), offset, True, [], -1, aborted, [], 0, 0, self._removals())

    def _removals(self) -> tuple[str, ...]:
        return (f"{self._directory}/{ACCEPTED}",) if self._losses.accepted else ()

    def _synced_to(self, segments: list[Segment], committed_offset: int) -> int:
        """The name of a resume point says it too, whatever became of its content. Of a log that Kafka wrote nobody knows what
        was synced of it, only committed."""
        points = self._saved.offsets_of(RESUME)
        is_ours = points or gapless.FILE_NAME in self._saved.names or not segments
        return max([*points, committed_offset if is_ours else 0])

    def _check_segments(self, point: ResumePoint, segments: list[Segment], log_start_offset: int) -> None:
        """By names and sizes: what the point vouches for is there."""
        sizes = {segment.base_offset: segment.size for segment in segments}
        if any(sizes.get(base) != size for base, size in point.before):
            swaps = gapless.read_gaps(self._fs, self._directory).swaps
            for missing in find_missing(
                *(point.before, point.segment.base_offset, sizes), log_start_offset=log_start_offset, swaps=swaps
            ):
                self._losses.found(str(missing))
        if (missing_tail := point.missing(sizes)) is not None:
            self._losses.found(str(missing_tail))

    def _prepare_for_losses(self, segments: list[Segment]) -> None:
        """What vouches for more than there is goes, and gaps are no reason any more to cut what follows them."""
        self._saved.forget_resume_points()
        gaps_before = max(segments[-1].base_offset, self._losses.synced_to)
        with syncing():
            self._fs.fsync_directory(self._directory)
            gapless.allow_gaps_before(self._fs, self._directory, gaps_before)

    def _start_over(self, offset: int, segments: list[Segment]) -> Opened:
        """Everything that was found had been deleted before the crash, and what came after it is lost: as in Kafka, the log
        goes on empty, where it started. Its offsets must not be given again."""
        log.warning("%s ends at %d, before its start: begun anew at %d", self._directory, segments[-1].next_offset, offset)
        self._saved.forget_all()
        with syncing():
            self._fs.fsync_directory(self._directory)  # they vouch for segments
        for segment in segments:
            segment.remove()
        return self._create(offset)

    def _drop_before(self, log_start_offset: int, point: ResumePoint, segments: list[Segment]) -> list[Segment]:
        """Without the segments that had left the log already, as far as their names tell."""
        gone = 0
        while gone + 1 < len(segments) and segments[gone + 1].base_offset <= log_start_offset:
            if segments[gone].base_offset >= point.segment.base_offset:
                break
            segments[gone].remove()
            gone += 1
        if gone:
            log.info("%s: %d segments before the log's start removed", self._directory, gone)
        return segments[gone:]

    def _sweep(self) -> None:
        """Files that were on their way in or out when the last process stopped."""
        names = self._fs.list_directory(self._directory)
        if any(name.endswith(SWAP) for name in names):
            finish_swaps(self._fs, self._directory)
            names = self._fs.list_directory(self._directory)
        for name in names:
            if name.endswith(LEFTOVERS):
                self._fs.unlink(f"{self._directory}/{name}")
        self._saved = SavedState(self._fs, self._directory, [name for name in names if not name.endswith(LEFTOVERS)])

    def _settle(self, segments: list[Segment]) -> None:
        """A process that was killed within a truncation may have left a cut that only the page cache knows: if the power went
        after new appends, some of what was cut would be back behind them."""
        handle = segments[-1].file.handle if segments else None  # opened before: that may fail and come to nothing
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
        self._may_read(sum(one.size for one in segments[at:]) - point.segment.size)
        producers, epochs = ProducerState(point.producers), self._saved.read_epochs(segments[: at + 1], point.segment.size)
        epochs.truncate_end(point.offset)  # later ones may predate a truncation; the batches tell
        ended_there = self._clean and segment is segments[-1] and segment.size == point.segment.size
        if not segment.resume_indexes(point.segment, closed=ended_there):
            self._may_read(point.segment.size)
            segment.rebuild_indexes(point.segment.size)
        whole = self._scan(segments[at:], point.segment.size, point.offset, (epochs, producers), point.offset)
        return segments[:at] + whole, producers, epochs

    def _recover_from_segment_start(
        self, segments: list[Segment], recovery_point: int
    ) -> tuple[list[Segment], ProducerState, LeaderEpochs]:
        """No resume point of ours, as in a directory that Kafka wrote: read whole segments, as Kafka does."""
        at = max((i for i, segment in enumerate(segments) if segment.base_offset <= recovery_point), default=0)
        self._may_read(sum(segment.size for segment in segments[at:]))
        epochs = self._saved.read_epochs(segments[: at + 1], 0)
        epochs.truncate_end(segments[at].base_offset)
        producers, snapshot_offset = self._saved.newest_snapshot(segments[0].base_offset, segments[at].base_offset)
        older = [segment for segment in segments[:at] if segment.next_offset > snapshot_offset]
        recovery.replay_headers(older, max(snapshot_offset, 0), segments[at].base_offset, producers)
        nothing = SegmentProgress(segments[at].base_offset, 0, 0, 0, NO_TIMESTAMP, segments[at].base_offset, 0)
        if not (self._clean and segments[at].size == 0 and segments[at].resume_indexes(nothing, closed=True)):
            segments[at].begin_indexes()
        gapless_from = gapless.gapless_from(self._fs, self._directory)
        whole = self._scan(segments[at:], 0, segments[at].base_offset, (epochs, producers), gapless_from)
        return segments[:at] + whole, producers, epochs

    def _scan(
        self,
        segments: list[Segment],
        position: int,
        next_offset: int,
        state: tuple[LeaderEpochs, ProducerState],
        gapless_from: int,
    ) -> list[Segment]:
        """Checks the segments in order; returns those that stay. The first is resumed at `position`, the last becomes active.

        Our own segments begin where the last one ended: a gap is the lost end of a file whose size never reached the disk.
        Before `gapless_from` the cleaner may have made it, Kafka's or ours.
        """
        self._scanned_from = next_offset
        for index, segment in enumerate(segments):
            if index:
                segment.begin_indexes()
                position = 0
            begin = max(next_offset, segment.base_offset)
            if segment.size == position and index == len(segments) - 1:
                segment.next_offset = begin  # nothing to read: it need not even be opened
                return segments
            segment.file.for_writing()  # what the last process wrote may be in memory only
            excess = recovery.scan(self._fs, segment, position, begin, state, self._on_read)
            self._scanned_bytes += segment.size - position
            next_offset = segment.next_offset
            rest = segments[index + 1 :]
            torn = excess > 0
            if rest and next_offset != rest[0].base_offset:
                torn = torn or rest[0].base_offset > gapless_from or next_offset > rest[0].base_offset
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
                self._let_go_of(segments[: index + 1])
        raise AssertionError("a log has a segment")

    def _let_go_of(self, sealed: list[Segment]) -> None:
        """Syncs them: a crash may have left more of them than this process may hold open."""
        dirty = [segment for segment in sealed if segment.is_unsynced]
        files = [file for segment in dirty for file in segment.sync_files(indexes=True)]
        with syncing():
            sync_files(files, self._fs, parent_directory(self._directory))
        for segment in dirty:
            for one, version in segment.unsynced(indexes=True):
                one.synced(version)

    def _may_read(self, total_bytes: int) -> None:
        if self._read_bytes_max is not None and total_bytes > self._read_bytes_max:
            raise MuchToRead(total_bytes)

    def _note_snapshot(self, offset: int, producers: ProducerState) -> None:
        """Rolling left one for the next sync round, and the crash may have come before."""
        path = path_of(self._directory, offset, SNAPSHOT)
        if not self._fs.exists(path):
            self._snapshots.append(FileWrite(path, format_snapshot(producers.as_of(offset))))

    def _cut(self, segment: Segment, excess: int, later: list[Segment]) -> None:
        log.warning(
            "%s cut at byte %d, offset %d: %d bytes and %d later segments were not whole",
            *(segment.file.path, segment.size, segment.next_offset, excess, len(later)),
        )
        self._cut_bytes += excess + sum(other.size for other in later)
        for other in reversed(later):
            other.remove()
        with syncing():
            self._fs.fsync_directory(self._directory)
            segment.cut(segment.size)
