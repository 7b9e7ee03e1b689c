"""What a partition saved beside its batches: producers, resume points, leader epochs, whose it is."""

from typing import NamedTuple

from libs.commitlog import epochs as epoch_file
from libs.commitlog.epochs import LeaderEpochs
from libs.commitlog.errors import DirectoryDamaged
from libs.commitlog.file_names import RESUME, SNAPSHOT, offset_of
from libs.commitlog.inspection.batches import SeenBatch
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.reading import ReadOnlyFiles, read_whole
from libs.commitlog.producer_snapshot import parse_snapshot
from libs.commitlog.producers import ProducerEntry
from libs.commitlog.resume import SegmentProgress, parse_resume
from libs.commitlog.segment_list import SegmentList


class SavedProducers(NamedTuple):
    """A snapshot or a resume point: producer state as of `offset`. `segment` is a resume point's."""

    path: str
    offset: int
    entries: dict[int, ProducerEntry]
    segment: SegmentProgress | None
    before: SegmentList = ()


def read_saved(files: ReadOnlyFiles, path: str, names: list[str], findings: Findings) -> list[SavedProducers]:
    """All that are sound, by offset, at the same offset the resume point last."""
    saved = []
    for suffix in (SNAPSHOT, RESUME):
        for name in names:
            offset = offset_of(name, suffix)
            if offset is None:
                continue
            file = f"{path}/{name}"
            content = read_whole(files, file, findings)
            if content is None:
                continue
            try:
                found = _parse(content, file, offset)
            except DirectoryDamaged as damage:
                words = str(damage).removeprefix(f"{file}: ")
                findings.problem(file, None, f"{words} ({len(content)} bytes); an older one, or the batches, must do")
            else:
                if found.offset != offset:
                    findings.problem(file, None, f"is of offset {found.offset}, whatever its name says")
                saved.append(found)
    return sorted(saved, key=lambda one: (one.offset, one.segment is not None))


def _parse(content: bytes, path: str, offset: int) -> SavedProducers:
    if path.endswith(SNAPSHOT):
        return SavedProducers(path, offset, parse_snapshot(content, path), None)
    point = parse_resume(content, path)
    return SavedProducers(path, point.offset, point.producers, point.segment, point.before)


def read_epochs(files: ReadOnlyFiles, path: str, findings: Findings) -> LeaderEpochs | None:
    """None if there is no sound file."""
    file = f"{path}/{epoch_file.FILE_NAME}"
    content = read_whole(files, file, findings)
    if content is None:
        return None
    try:
        return LeaderEpochs.parse(content, file)
    except DirectoryDamaged as damage:
        findings.problem(file, None, f"{str(damage).removeprefix(f'{file}: ')}; the next start reads the epochs from the batches")
        return None


class SavedStateCheck:
    """Told the batches of a partition in order, says what of its saved producers and epochs they contradict."""

    def __init__(self, path: str, saved: list[SavedProducers], epochs: LeaderEpochs | None, findings: Findings) -> None:
        self._epochs_path, self._epochs, self._findings = f"{path}/{epoch_file.FILE_NAME}", epochs, findings
        self._saved = saved
        self._recovery_point = max((one.offset for one in saved if one.segment is not None), default=0)
        self._latest_epoch = -1
        self._wanted: dict[int, list[tuple[SavedProducers, int]]] = {}
        for one in saved:
            for producer_id, entry in one.entries.items():
                for batch in entry.batches:
                    self._wanted.setdefault(batch.last_offset, []).append((one, producer_id))
                    if batch.last_offset >= one.offset:
                        words = f"producer {producer_id} has offset {batch.last_offset}, which is not before {one.offset}"
                        findings.problem(one.path, None, words)

    def saw(self, log_path: str, batch: SeenBatch) -> None:
        for one, producer_id in self._wanted.pop(batch.header.last_offset, ()):
            self._check_producer(one, producer_id, batch)
        epoch, offset = batch.header.leader_epoch, batch.header.base_offset
        if epoch == self._latest_epoch or epoch < 0:
            return
        if epoch < self._latest_epoch:
            words = f"the batch at offset {offset} has leader epoch {epoch}, one before it has {self._latest_epoch}"
            self._findings.problem(log_path, batch.position, words)
            return
        self._latest_epoch = epoch
        self._check_epoch(epoch, offset, batch)

    def _check_epoch(self, epoch: int, offset: int, batch: SeenBatch) -> None:
        entries = self._epochs.entries() if self._epochs is not None else []
        if self._epochs is None or (entries and offset < entries[0][1] and epoch <= entries[0][0]):
            return  # the batch lies before the log's start, from which on the file counts
        if epoch > self._epochs.latest and offset >= self._recovery_point:
            return  # the file is written by a sync round, and the next start finds the epoch in the batches
        known = self._epochs.epoch_for(offset)
        if known != epoch:
            words = f"says that offset {offset} is of leader epoch {known}, its batch has {epoch}"
            self._findings.problem(self._epochs_path, None, words)

    def _check_producer(self, one: SavedProducers, producer_id: int, batch: SeenBatch) -> None:
        entry, header = one.entries[producer_id], batch.header
        if header.producer_id != producer_id:
            words = f"producer {producer_id} did not write offset {header.last_offset}, producer {header.producer_id} did"
            self._findings.problem(one.path, None, words)
            return
        saved = next(cached for cached in entry.batches if cached.last_offset == header.last_offset)
        if (saved.last_sequence, saved.offset_delta) != (header.last_sequence, header.last_offset_delta):
            words = (
                f"producer {producer_id}, offset {header.last_offset}: sequence {saved.last_sequence} was saved, "
                f"the batch ends with {header.last_sequence}"
            )
            self._findings.problem(one.path, None, words)

    def ended(self, first_offset: int, end_offset: int, *, is_whole: bool, is_running: bool) -> None:
        """All batches were seen. `is_whole`: none can be missing in [first_offset, end_offset)."""
        for offset, missed in self._wanted.items():
            for one, producer_id in missed if is_whole and first_offset <= offset < end_offset else ():
                self._findings.problem(one.path, None, f"producer {producer_id}: no batch ends with offset {offset}")
        if is_running:
            return
        for one in self._saved:
            if one.offset > end_offset:
                self._findings.problem(one.path, None, f"is of offset {one.offset}, the log ends at {end_offset}")
        for epoch, start in self._epochs.entries() if self._epochs is not None else ():
            if start > end_offset:
                self._findings.problem(self._epochs_path, None, f"epoch {epoch} starts at {start}, the log ends at {end_offset}")
