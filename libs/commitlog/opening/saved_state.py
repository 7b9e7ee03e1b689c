"""State that a log saved beside its batches, as an opening log finds it: resume points, producer snapshots, leader epochs."""

import logging

from libs.commitlog.checkpoints import leader_epochs
from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.file_names import RESUME, SNAPSHOT, by_suffix, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.resume_points import ResumePoint, parse_resume
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.segment import Segment
from libs.wire.record_batches.batches import BatchHeader

log = logging.getLogger("log")


class SavedState:
    """The saved state in one directory, which holds `names`."""

    def __init__(self, fs: FileSystem, directory: str, names: list[str]) -> None:
        self._fs, self._directory = fs, directory
        self.names = names
        self._offsets = by_suffix(names)
        self._unsound: list[str] = []
        self._points: dict[str, ResumePoint] = {}

    def name_resume_points(self) -> None:
        """Renames resume points whose name has another offset than their content. An unreadable one is believed by its name,
        which may be the only proof of how far the log was synced. Raises OSError."""
        for offset in sorted(self.offsets_of(RESUME), reverse=True):
            path = path_of(self._directory, offset, RESUME)
            try:
                point = self._resume_point(path)
            except DirectoryDamaged:
                continue
            if point.offset == offset:
                return  # older ones do not matter
            del self._points[path]
            log.warning("%s is renamed, since its content is of offset %d", path, point.offset)
            self._forget(offset, RESUME)
            own = path_of(self._directory, point.offset, RESUME)
            if self._fs.exists(own):
                self._fs.unlink(path)
            else:
                self._fs.rename(path, own)
                self.names.append(own.rpartition("/")[2])
                self._offsets[RESUME].append(point.offset)

    def newest_resume_point(self, segments: list[Segment], log_start_offset: int) -> ResumePoint | None:
        for offset in sorted(self.offsets_of(RESUME), reverse=True):
            path = path_of(self._directory, offset, RESUME)
            try:
                point = self._resume_point(path)
            except DirectoryDamaged as damage:
                log.warning("resume point ignored: %s", damage)
                self._unsound.append(path)
                continue
            # Retention took its segment, and a truncation removed the newer ones.
            if not segments or not point.segment.base_offset < segments[0].base_offset <= log_start_offset:
                return point
            self._fs.unlink(path)
            self._forget(offset, RESUME)
        return None

    def _resume_point(self, path: str) -> ResumePoint:
        """A resume point, read once, so that all callers see the same one. Raises DirectoryDamaged."""
        if path not in self._points:
            self._points[path] = parse_resume(read_file(self._fs, path) or b"", path)
        return self._points[path]

    def newest_snapshot(self, offset_min: int, offset_max: int) -> tuple[ProducerState, int]:
        for offset in sorted(self.offsets_of(SNAPSHOT), reverse=True):
            if offset_min <= offset <= offset_max:
                path = path_of(self._directory, offset, SNAPSHOT)
                try:
                    return ProducerState(parse_snapshot(read_file(self._fs, path) or b"", path)), offset
                except DirectoryDamaged as damage:
                    log.warning("producer snapshot ignored: %s", damage)
                    self._fs.unlink(path)
                    self._forget(offset, SNAPSHOT)
        return ProducerState(), -1

    def remove_useless(self, start_offset: int, end_offset: int) -> list[int]:
        """Removes state that was saved beyond the log's end (KAFKA-5829), and all resume points before its first segment except
        the newest. Returns the offsets of the resume points that stay."""
        remaining = []
        for suffix in (SNAPSHOT, RESUME):
            offsets = sorted(self.offsets_of(suffix))
            for offset in offsets:
                path = path_of(self._directory, offset, suffix)
                stale = suffix == RESUME and offset <= start_offset and offset != offsets[-1]
                if offset > end_offset or stale or path in self._unsound:
                    self._fs.unlink(path)
                elif suffix == RESUME:
                    remaining.append(offset)
        return remaining

    def read_epochs(self, segments: list[Segment], end: int) -> LeaderEpochs:
        """The leader epochs, from their file, or else from the batches of the segments. Of the last segment only the first `end`
        bytes count."""
        path = f"{self._directory}/{leader_epochs.FILE_NAME}"
        try:
            content = read_file(self._fs, path)
            if content is not None:
                return LeaderEpochs.parse(content, path)
        except DirectoryDamaged as damage:
            log.warning("leader epochs read again from the batches: %s", damage)
        epochs = LeaderEpochs()
        for segment in segments:
            for place in segment.walk(0, segment.size if segment is not segments[-1] else end):
                epoch = BatchHeader.at(segment.header_at(place.position)).leader_epoch
                if epoch > epochs.latest:
                    epochs.assign(epoch, place.base_offset)
        return epochs

    def offsets_of(self, suffix: str) -> list[int]:
        """The offsets in the names, in no order."""
        return self._offsets.get(suffix, [])

    def _forget(self, offset: int, suffix: str) -> None:
        self.names.remove(path_of(self._directory, offset, suffix).rpartition("/")[2])
        self._offsets[suffix].remove(offset)

    def forget_all(self) -> None:
        for name in self.names:
            path = f"{self._directory}/{name}"
            if name.endswith((RESUME, SNAPSHOT, leader_epochs.FILE_NAME)) and self._fs.exists(path):
                self._fs.unlink(path)

    def forget_resume_points(self) -> None:
        for offset in self.offsets_of(RESUME):
            self._fs.unlink(path_of(self._directory, offset, RESUME))
        self.names = [name for name in self.names if not name.endswith(RESUME)]
        self._offsets.pop(RESUME, None)
