"""The ledger of changes that are not on the disk yet, and of the resume points that are.

The log notes its changes. `capture` turns them into a sync round's targets, and `settle` removes those that a round has covered.
"""

from collections.abc import Sequence

from libs.commitlog.checkpoints import leader_epochs
from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.contiguity import NotedSwap
from libs.commitlog.files.durable_files import FileWrite
from libs.commitlog.files.file_names import RESUME, SNAPSHOT, path_of
from libs.commitlog.files.filesystem import OpenFile
from libs.commitlog.files.sync import Lineage, SyncTargets, parent_directory
from libs.commitlog.opening.opening import Opened
from libs.commitlog.opening.resume_points import ResumePoint, resume_content
from libs.commitlog.opening.segment_list import list_segments
from libs.commitlog.producers.producer_snapshot import snapshot_content
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.segment import Segment

RESUME_POINT_BYTES = 64 * 1024 * 1024
"""The bytes since the last resume point after which a sync round leaves a new one. They bound what an opening reads after a
crash."""


class SyncLedger:
    """The debts of one log to its next sync round. `resume_wanted`: that round leaves a resume point, however much was written
    since the last."""

    def __init__(self, directory: str, opened: Opened) -> None:
        self._directory = directory
        self._sealed: dict[OpenFile, Segment] = {}
        self._directories: dict[str, None] = {}
        self._names_version = 0
        self._writes = {write.path: write for write in opened.snapshots}
        self._aborted = opened.aborted
        self._removals: dict[str, None] = dict.fromkeys(opened.removals)
        self._saved_epochs_version = 0 if not opened.created else -1
        self._resume_points = opened.resume_points
        self._unlisted: list[NotedSwap] = []
        self._listed_from = opened.segments[0].base_offset
        """The first segment that the newest resume point lists. A deletion by retention does not cause a new one."""
        self._has_listed = False
        self.resume_segment = opened.resume_segment
        """The base of the segment that the newest resume point on disk names, in which recovery begins. -1: there is none."""
        self.resume_wanted = opened.scanned_bytes > 0
        self.has_unsaved_state = False
        """Whether the log has state that the newest resume point lacks, though the log has not grown since."""
        self.bytes_since_resume = opened.scanned_bytes
        if opened.created:
            self._directories = {parent_directory(directory): None, directory: None}
        elif opened.scanned_bytes:
            self._directories = {directory: None}

    # --- notes

    def sealed(self, segment: Segment) -> None:
        """Notes a sealed segment: it grows no more. It must be synced with its indexes before later records count as durable."""
        if segment.is_unsynced:  # else it is on disk already: an opening syncs segments that it cannot hold open
            self._sealed.update(dict.fromkeys(segment.sync_files(indexes=True), segment))

    def unsealed(self, segment: Segment) -> None:
        """Notes that a segment grows again: a round that covers it now does not cover its later bytes."""
        self._sealed = {file: sealed for file, sealed in self._sealed.items() if sealed is not segment}

    def renamed(self) -> None:
        """Notes that names in the log's directory changed."""
        self._directories[self._directory] = None
        self._names_version += 1

    def snapshot(self, offset: int, producers: ProducerState) -> None:
        """Notes Kafka's producer snapshot as of `offset`, where a segment begins or the log ends."""
        path = self._snapshot_path(offset)
        self._writes[path] = FileWrite(path, snapshot_content(producers.as_of(offset)))

    def revert_begin(self, segment: Segment) -> None:
        """Notes that the beginning of a segment was undone."""
        self._writes.pop(self._snapshot_path(segment.base_offset), None)

    def cut(self, resumes_max: int, remaining: list[Segment], recovery_point: int) -> None:
        """Follows a truncation. Resume points later than `resumes_max` are gone from the disk already.

        A snapshot from before the cut still waits: once retention has reached it, only that snapshot knows the producers whose
        batches left the log.
        """
        remaining_paths = {
            self._snapshot_path(segment.base_offset) for segment in remaining if segment.base_offset <= resumes_max
        }
        self._writes = {path: write for path, write in self._writes.items() if path in remaining_paths}
        if any(point > resumes_max for point in self._resume_points):
            self.resume_segment = -1
        self._resume_points = [point for point in self._resume_points if point <= resumes_max]
        self.resume_wanted = True
        self._sealed = {}
        for segment in remaining:
            if segment.next_offset >= recovery_point:  # the segment that was cut is among them: its indexes are new
                self.sealed(segment)
        self.renamed()

    def retired(self, segments: list[Segment], start_offset: int) -> None:
        """Follows retention: the log begins at the segment at `start_offset` now. A round carries out removals, since one may be
        writing files that must go."""
        stale = [point for point in self._resume_points[:-1] if point <= start_offset]
        self._resume_points = [point for point in self._resume_points if point not in stale]
        self._removals.update(dict.fromkeys(map(self._resume_path, stale)))
        for segment in segments:
            self._drop_snapshot(segment.base_offset)

    @property
    def newest_resume_point(self) -> int:
        """The newest resume point on disk; -1 if there is none."""
        return self._resume_points[-1] if self._resume_points else -1

    @property
    def unlisted_swaps(self) -> tuple[NotedSwap, ...] | None:
        """The swaps that no resume point on disk knows of. None: there may be some from before the log was opened."""
        return tuple(self._unlisted) if self._has_listed else None

    def swapped(self, swap: NotedSwap, removed_bases: Sequence[int], resume_offset: int) -> None:
        """Notes a swap. Its staging has removed the older resume points, and a new one soon lists the segments as they are
        now."""
        self._resume_points = [point for point in self._resume_points if point > swap.end_offset or point == resume_offset]
        self._unlisted.append(swap)
        self.resume_wanted = True
        for base in removed_bases:
            self._drop_snapshot(base)

    def _drop_snapshot(self, offset: int) -> None:
        path = self._snapshot_path(offset)
        self._writes.pop(path, None)
        self._removals[path] = None

    # --- rounds

    def capture(
        self,
        durable_offset: int,
        segments: Sequence[Segment],
        end_offset: int,
        state: tuple[LeaderEpochs, ProducerState],
        lineage: Lineage,
        *,
        resume_point: bool,
        indexes: bool = False,
    ) -> SyncTargets | None:
        """The targets of a round that makes everything before `end_offset` durable; None if it is already.

        `indexes`: the round covers the indexes of growing segments too, so that no file of the log need stay open.
        """
        epochs, producers = state
        first_offset, active = segments[0].base_offset, segments[-1]
        resume_point = resume_point or self.resume_wanted or self.bytes_since_resume >= RESUME_POINT_BYTES
        if not (resume_point or indexes or self._owes_more(epochs)):  # the case of nearly every round of nearly every log
            if end_offset <= durable_offset:
                return None
            file, names = active.file, self._names_version
            covered_file = ((file, file.version),)
            return SyncTargets(end_offset, (file.handle,), (), (), covered_file, first_offset, lineage, epochs.version, names)
        aborted = self._aborted.unsaved(active.base_offset, active_too=resume_point)
        is_on_disk = self._resume_points[-1:] == [end_offset] and self.resume_segment == active.base_offset
        is_on_disk = is_on_disk and not self._unlisted and self._listed_from == first_offset and not self.has_unsaved_state
        resume_point = resume_point and end_offset > first_offset and not is_on_disk
        epochs_changed = epochs.version != self._saved_epochs_version and bool(epochs.entries())
        indexes = resume_point or (indexes and active.is_unsynced)
        dirty = end_offset > durable_offset or self._sealed or self._directories or indexes
        if not (dirty or resume_point or epochs_changed or self._writes or aborted or self._removals):
            return None
        files = dict(self._sealed)
        covered = [file_version for segment in dict.fromkeys(files.values()) for file_version in segment.unsynced(indexes=True)]
        if end_offset > durable_offset or indexes:  # else no byte of it needs a sync, and it need not be opened
            files.update(dict.fromkeys(active.sync_files(indexes=indexes), active))
            covered += active.unsynced(indexes=indexes)
        writes = [*self._writes.values(), *aborted]
        removals = list(self._removals)
        if epochs_changed:
            writes.append(FileWrite(f"{self._directory}/{leader_epochs.FILE_NAME}", epochs.format()))
        if resume_point:
            before = list_segments([(segment.base_offset, segment.size) for segment in segments[:-1]])
            content = producers.as_of(end_offset), self._aborted.counts, before, self._aborted.checksums
            point = ResumePoint(end_offset, active.progress, *content)
            writes.append(FileWrite(self._resume_path(end_offset), resume_content(point)))
            # The resume point before it stays, so that a truncation below the new one need not read the whole log.
            removals += map(self._resume_path, self._older_points(end_offset)[:-1])
        return SyncTargets(
            end_offset=end_offset,
            files=tuple(files),
            sealed=tuple(self._sealed),
            covered=tuple(covered),
            directories=tuple(self._directories),
            writes=tuple(writes),
            removals=tuple(removals),
            resume_offset=end_offset if resume_point else -1,
            resume_segment=active.base_offset if resume_point else -1,
            first_segment=first_offset,
            lineage=lineage,
            listed=tuple(self._unlisted) if resume_point else (),
            epochs_version=epochs.version,
            names_version=self._names_version,
        )

    def _owes_more(self, epochs: LeaderEpochs) -> bool:
        """Whether the log owes more than the bytes that were appended to the active segment."""
        if epochs.version != self._saved_epochs_version or self._aborted.has_unsaved:
            return True
        return bool(self._sealed or self._directories or self._writes or self._removals)

    def settle(self, targets: SyncTargets, active: Segment) -> None:
        """Notes that a round with these targets succeeded, and that the log was not cut meanwhile."""
        for covered, version in targets.covered:
            covered.synced(version)
        for file in targets.sealed:
            self._sealed.pop(file, None)
        if targets.names_version == self._names_version:
            self._directories.clear()
        if targets.writes:
            for write in targets.writes:
                self._writes.pop(write.path, None)
            self._aborted.saved(targets.writes)
        for path in targets.removals:
            self._removals.pop(path, None)
        self._saved_epochs_version = max(self._saved_epochs_version, targets.epochs_version)
        if targets.resume_offset >= 0:
            self._resume_points = [*self._older_points(targets.resume_offset)[-1:], targets.resume_offset]
            self.resume_segment = targets.resume_segment
            self._unlisted = [swap for swap in self._unlisted if swap not in targets.listed]
            self._has_listed = True
            self.has_unsaved_state = False
            self._listed_from = targets.first_segment
            self.bytes_since_resume = 0
            self.resume_wanted = active.base_offset > targets.resume_segment  # the log rolled meanwhile

    def _older_points(self, offset: int) -> list[int]:
        return [point for point in self._resume_points if point != offset]

    def _resume_path(self, offset: int) -> str:
        return path_of(self._directory, offset, RESUME)

    def _snapshot_path(self, offset: int) -> str:
        return path_of(self._directory, offset, SNAPSHOT)
