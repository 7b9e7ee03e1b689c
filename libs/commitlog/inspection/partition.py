"""The content of one partition's directory. It is read in an order that suits a log in use: references (saved state, indexes)
before the batches to which they refer."""

from collections.abc import Iterator, Mapping
from dataclasses import field

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.contiguity import FILE_NAME as GAPLESS
from libs.commitlog.files.contiguity import GAPS_ANYWHERE, Contiguity, parse_contiguity
from libs.commitlog.files.file_names import (
    INDEX,
    LEFTOVERS,
    LOG,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_of,
    offsets_of,
    path_of,
)
from libs.commitlog.inspection.batches import Damage, InspectedBatch, walk
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.identity import read_topic_id
from libs.commitlog.inspection.indexes import IndexContent, parse_index
from libs.commitlog.inspection.reading import InspectedFile, ReadOnlyFiles, list_names, read_whole
from libs.commitlog.inspection.saved_state import SavedProducers, read_epochs, read_saved
from libs.commitlog.producers.producer_state import NO_OFFSET, ProducerEntry, ProducerState
from libs.commitlog.producers.transaction_index import ENTRY
from libs.commitlog.segments.index import OFFSET_ENTRY, TIME_ENTRY
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.markers import read_marker

REFUSED = "the partition does not open, so that nothing is cut silently; a replica may have the data"


@dataclass(slots=True)
class InspectedSegment:
    base_offset: int
    path: str
    is_last: bool = False
    next_offset: int = -1  # of the last segment: the log's end
    size: int = 0
    index_entries: int | None = None  # None: there is no such file
    time_entries: int | None = None
    aborted_transactions: int = 0
    greatest_timestamp: int = -1  # as its time index says
    batches: int | None = None  # None: not counted
    records: int | None = None
    damaged_bytes: int = 0
    is_gone: bool = False
    """Retention took it while the directory was read."""


@dataclass(slots=True)
class InspectedPartition:
    path: str
    is_running: bool = False
    topic_id: bytes | None = None
    gaps: Contiguity = field(default_factory=lambda: Contiguity(GAPS_ANYWHERE))
    segments: list[InspectedSegment] = field(default_factory=list)
    epochs: LeaderEpochs | None = None
    saved: list[SavedProducers] = field(default_factory=list)
    producers: Mapping[int, ProducerEntry] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)  # the partition's entries in the directory's checkpoints

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def first_offset(self) -> int:
        return self.segments[0].base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def open_transactions(self) -> list[int]:
        """The start offsets of open transactions. Readers of committed records stop at the first."""
        first_offsets = (entry.transaction_first_offset for entry in self.producers.values())
        return sorted(offset for offset in first_offsets if offset != NO_OFFSET)

    @property
    def saved_to(self) -> int:
        """The offset before which state files must have what the batches tell. Kafka leaves no resume points, and writes those
        files at once."""
        if self.resume_point is not None:
            return self.resume_point.offset
        return GAPS_ANYWHERE if self.gaps.before == GAPS_ANYWHERE else 0

    @property
    def resume_point(self) -> SavedProducers | None:
        """The newest resume point. Everything before it is known to be on disk."""
        return next((state for state in reversed(self.saved) if state.segment is not None), None)


class PartitionReader:
    """A reader of one partition's directory. It fills `partition` and reports problems. `indexes`: by base offset."""

    def __init__(self, files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool) -> None:
        self.files, self.findings = files, findings
        self.partition = InspectedPartition(path, is_running)
        self.indexes: dict[int, tuple[IndexContent | None, IndexContent | None]] = {}
        self._read_pointers()
        newest = self.partition.resume_point or (self.partition.saved[-1] if self.partition.saved else None)
        self._producers = ProducerState(
            dict(newest.entries) if newest is not None else None
        )  # the saved state itself must not change
        self._producers_as_of = newest.offset if newest is not None else 0
        self.partition.producers = self._producers.entries

    def look(self) -> InspectedPartition:
        """An overview. It reads batches only behind the newest saved state, for the log's end and the producers."""
        segments, point = self.partition.segments, self.partition.resume_point
        at = max((i for i, segment in enumerate(segments) if segment.base_offset <= self._producers_as_of), default=0)
        saved = point.segment if point is not None else None
        for segment in segments[at:]:
            for _ in self.walk(segment, saved.size if saved is not None and saved.base_offset == segment.base_offset else 0):
                pass
        if point is not None and segments and segments[-1].next_offset < point.offset:
            segments[-1].next_offset = point.offset  # no record follows the resume point
        return self.partition

    def batches(self, start_offset: int) -> Iterator[tuple[InspectedSegment, InspectedBatch | Damage]]:
        """The batches that end at `start_offset` or later, and the damage between them. A wrong CRC is reported too."""
        for segment in self.partition.segments:
            if segment.is_last or segment.next_offset > start_offset:
                for region in self.walk(segment):
                    if isinstance(region, Damage):
                        yield segment, region
                    elif region.header.last_offset >= start_offset:
                        if not region.crc_matches and not self.is_being_written(segment, region.end):
                            message = f"the batch does not match its CRC; {self.damage_consequence(segment, region.position)}"
                            self.findings.problem(segment.path, region.position, message)
                        yield segment, region

    def walk(self, segment: InspectedSegment, position: int = 0) -> Iterator[InspectedBatch | Damage]:
        """The batches of a segment from `position`. It reports damage, and follows producers and the log's end."""
        try:
            file = InspectedFile(self.files, segment.path)
            segment.size = file.size
            for region in walk(file, segment.base_offset, position):
                if isinstance(region, Damage):
                    self._report(segment, region)
                elif region.crc_matches:
                    self._follow(segment, region)
                yield region
        except FileNotFoundError:
            self._note_removal(segment)
        except OSError as error:
            self.findings.problem(segment.path, None, f"cannot be read: {error.strerror}")

    def _follow(self, segment: InspectedSegment, batch: InspectedBatch) -> None:
        header = batch.header
        if segment.is_last:
            segment.next_offset = max(segment.next_offset, header.last_offset + 1)
        if header.producer_id >= 0 and header.base_offset >= self._producers_as_of:
            self._producers.replay(header, read_marker(batch.content) if header.is_control else None)

    def _report(self, segment: InspectedSegment, damage: Damage) -> None:
        if self.is_being_written(segment, damage.end):
            self.findings.note(segment.path, damage.position, f"a batch is being written ({damage.end - damage.position} bytes)")
            return
        segment.damaged_bytes += damage.end - damage.position
        behind = "to the end of the file" if damage.end == segment.size else f"up to the next whole batch at {damage.end}"
        consequence = self.damage_consequence(segment, damage.position)
        message = f"{damage.message}; {damage.end - damage.position} bytes {behind} are unreadable; {consequence}"
        self.findings.problem(segment.path, damage.position, message)

    def is_being_written(self, segment: InspectedSegment, end: int) -> bool:
        return self.partition.is_running and segment.is_last and end == segment.size

    def damage_consequence(self, segment: InspectedSegment, position: int) -> str:
        """The consequence of damage at that position."""
        point = self.partition.resume_point
        if point is None or point.segment is None:
            return "the next start after a crash cuts the log here"
        if (segment.base_offset, position) < (point.segment.base_offset, point.segment.size):
            return "it was synced, so a start does not look here, and clients that check CRCs fail; a replica may have the data"
        return "the next start cuts the log here"

    def _note_removal(self, segment: InspectedSegment) -> None:
        if not segment.is_gone:
            segment.is_gone = True
            self.findings.note(segment.path, None, "went away while the directory was read")

    # --- what points

    def _read_pointers(self) -> None:
        partition, files, findings = self.partition, self.files, self.findings
        names = list_names(files, partition.path, findings)
        if GAPLESS in names:
            partition.gaps = parse_contiguity(read_whole(files, f"{partition.path}/{GAPLESS}", findings))
        partition.topic_id = read_topic_id(files, partition.path, findings)
        partition.epochs = read_epochs(files, partition.path, findings)
        partition.saved = read_saved(files, partition.path, names, findings)
        partition.leftovers = [name for name in names if name.endswith((*LEFTOVERS, SWAP))]
        bases = offsets_of(names, LOG)
        if not bases:
            findings.problem(partition.path, None, "there is no segment here")
            return
        partition.segments = [InspectedSegment(base, path_of(partition.path, base, LOG)) for base in bases]
        for segment, following in zip(partition.segments, bases[1:], strict=False):
            segment.next_offset = following
        partition.segments[-1].is_last, partition.segments[-1].next_offset = True, bases[-1]
        for segment in partition.segments:
            self.indexes[segment.base_offset] = self._read_indexes(segment)
        for name in names:
            for suffix in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
                base = offset_of(name, suffix)
                if base is not None and base not in self.indexes:
                    findings.note(f"{partition.path}/{name}", None, "has no log beside it: the next start removes it")
        indexed = offsets_of(names, TRANSACTION_INDEX)
        for segment in partition.segments:
            try:
                segment.size = files.size_of(segment.path)
                if segment.base_offset in indexed:
                    index = path_of(partition.path, segment.base_offset, TRANSACTION_INDEX)
                    segment.aborted_transactions = files.size_of(index) // ENTRY.size
            except FileNotFoundError:
                self._note_removal(segment)
            except OSError as error:
                findings.problem(segment.path, None, f"cannot be read: {error.strerror}")
        self._check_resume_point()

    def _read_indexes(self, segment: InspectedSegment) -> tuple[IndexContent | None, IndexContent | None]:
        contents: list[IndexContent | None] = []
        for suffix, entry in ((INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
            path = path_of(self.partition.path, segment.base_offset, suffix)
            content = read_whole(self.files, path, self.findings)
            if content is None:
                # A running log makes the .log of a segment first, and retention removes the .log first.
                if self.files.exists(segment.path) and not (self.partition.is_running and segment.is_last):
                    self.findings.problem(path, None, "is missing or unreadable: it is made again from the log when it is needed")
                contents.append(None)
            else:
                contents.append(parse_index(path, content, entry, is_last=segment.is_last, findings=self.findings))
        offsets, times = contents
        segment.index_entries = len(offsets.entries) if offsets is not None else None
        if times is not None:
            segment.time_entries = len(times.entries)
            segment.greatest_timestamp = times.entries[-1][0] if times.entries else -1
        return offsets, times

    def _check_resume_point(self) -> None:
        point = self.partition.resume_point
        if point is None or point.segment is None or self.partition.is_running:
            return
        segment = next((segment for segment in self.partition.segments if segment.base_offset == point.segment.base_offset), None)
        if segment is None:
            self.findings.problem(point.path, None, f"needs the segment of {point.segment.base_offset}, which is gone: {REFUSED}")
        elif segment.size < point.segment.size:
            message = f"{point.segment.size} bytes were synced, {segment.size} are there: {REFUSED}"
            self.findings.problem(segment.path, segment.size, message)
