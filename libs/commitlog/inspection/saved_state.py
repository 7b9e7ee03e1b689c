"""The state that a partition saved beside its batches: producers, resume points, leader epochs, topic id."""

from collections.abc import Mapping
from typing import NamedTuple

from libs.commitlog.checkpoints import leader_epochs
from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.file_names import RESUME, SNAPSHOT, offset_of
from libs.commitlog.inspection.batches import InspectedBatch
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.reading import ReadOnlyFiles, read_whole
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.resume_points import parse_resume
from libs.commitlog.opening.segment_list import SegmentList
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_state import ProducerEntry
from libs.commitlog.segments.segment_progress import SegmentProgress


class SavedProducers(NamedTuple):
    """A snapshot or a resume point: producer state as of `offset`. Only a resume point has a `segment`."""

    path: str
    offset: int
    entries: Mapping[int, ProducerEntry]
    segment: SegmentProgress | None
    before: SegmentList = ()


def read_saved(files: ReadOnlyFiles, path: str, names: list[str], findings: Findings) -> list[SavedProducers]:
    """All sound snapshots and resume points, by offset. At the same offset the resume point comes last."""
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
                parsed = _parse(content, file, offset)
            except DirectoryDamaged as damage:
                message = str(damage).removeprefix(f"{file}: ")
                findings.problem(file, None, f"{message} ({len(content)} bytes); an older one, or the batches, must do")
            else:
                if parsed.offset != offset:
                    findings.problem(file, None, f"is of offset {parsed.offset}, against its name")
                saved.append(parsed)
    return sorted(saved, key=lambda state: (state.offset, state.segment is not None))


def _parse(content: bytes, path: str, offset: int) -> SavedProducers:
    if path.endswith(SNAPSHOT):
        return SavedProducers(path, offset, parse_snapshot(content, path), None)
    point = parse_resume(content, path)
    return SavedProducers(path, point.offset, point.producers, point.segment, point.before)


def read_epochs(files: ReadOnlyFiles, path: str, findings: Findings) -> LeaderEpochs | None:
    """The leader epochs, None if there is no sound file."""
    file = f"{path}/{leader_epochs.FILE_NAME}"
    content = read_whole(files, file, findings)
    if content is None:
        return None
    try:
        return LeaderEpochs.parse(content, file)
    except DirectoryDamaged as damage:
        findings.problem(file, None, f"{str(damage).removeprefix(f'{file}: ')}; the next start reads the epochs from the batches")
        return None


class SavedStateCheck:
    """A check of saved producers and epochs. It is given the batches of a partition in order, and reports contradictions."""

    def __init__(self, path: str, saved: list[SavedProducers], epochs: LeaderEpochs | None, findings: Findings) -> None:
        self._epochs_path, self._epochs, self._findings = f"{path}/{leader_epochs.FILE_NAME}", epochs, findings
        self._saved = saved
        self._recovery_point = max((state.offset for state in saved if state.segment is not None), default=0)
        self._latest_epoch = -1
        self._awaiting_batch: dict[int, list[tuple[SavedProducers, int]]] = {}
        for state in saved:
            for producer_id, entry in state.entries.items():
                for batch in entry.batches:
                    self._awaiting_batch.setdefault(batch.last_offset, []).append((state, producer_id))
                    if batch.last_offset >= state.offset:
                        message = f"producer {producer_id} has offset {batch.last_offset}, which is not before {state.offset}"
                        findings.problem(state.path, None, message)

    def observe(self, log_path: str, batch: InspectedBatch) -> None:
        for state, producer_id in self._awaiting_batch.pop(batch.header.last_offset, ()):
            self._check_producer(state, producer_id, batch)
        epoch, offset = batch.header.leader_epoch, batch.header.base_offset
        if epoch == self._latest_epoch or epoch < 0:
            return
        if epoch < self._latest_epoch:
            message = f"the batch at offset {offset} has leader epoch {epoch}, one before it has {self._latest_epoch}"
            self._findings.problem(log_path, batch.position, message)
            return
        self._latest_epoch = epoch
        self._check_epoch(epoch, offset, batch)

    def _check_epoch(self, epoch: int, offset: int, batch: InspectedBatch) -> None:
        entries = self._epochs.entries() if self._epochs is not None else []
        if self._epochs is None or (entries and offset < entries[0][1] and epoch <= entries[0][0]):
            return  # the batch lies before the log's start, where the file's entries begin
        if epoch > self._epochs.latest and offset >= self._recovery_point:
            return  # a sync round writes the file, and the next start finds the epoch in the batches
        recorded_epoch = self._epochs.epoch_for(offset)
        if recorded_epoch != epoch:
            message = f"says that offset {offset} is of leader epoch {recorded_epoch}, its batch has {epoch}"
            self._findings.problem(self._epochs_path, None, message)

    def _check_producer(self, state: SavedProducers, producer_id: int, batch: InspectedBatch) -> None:
        entry, header = state.entries[producer_id], batch.header
        if header.producer_id != producer_id:
            message = f"producer {producer_id} did not write offset {header.last_offset}, producer {header.producer_id} did"
            self._findings.problem(state.path, None, message)
            return
        saved = next(cached for cached in entry.batches if cached.last_offset == header.last_offset)
        if (saved.last_sequence, saved.offset_delta) != (header.last_sequence, header.last_offset_delta):
            message = (
                f"producer {producer_id}, offset {header.last_offset}: sequence {saved.last_sequence} was saved, "
                f"the batch ends with {header.last_sequence}"
            )
            self._findings.problem(state.path, None, message)

    def ended(self, first_offset: int, end_offset: int, *, is_whole: bool, is_running: bool) -> None:
        """Ends the check after all batches. `is_whole`: no batch can be missing in [first_offset, end_offset)."""
        for offset, missed in self._awaiting_batch.items():
            for state, producer_id in missed if is_whole and first_offset <= offset < end_offset else ():
                self._findings.problem(state.path, None, f"producer {producer_id}: no batch ends with offset {offset}")
        if is_running:
            return
        for state in self._saved:
            if state.offset > end_offset:
                self._findings.problem(state.path, None, f"is of offset {state.offset}, the log ends at {end_offset}")
        for epoch, start in self._epochs.entries() if self._epochs is not None else ():
            if start > end_offset:
                self._findings.problem(self._epochs_path, None, f"epoch {epoch} starts at {start}, the log ends at {end_offset}")
