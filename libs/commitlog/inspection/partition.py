"""One partition's directory: what is in it.

Read in an order that suits a log that is being written: what points (saved state, indexes) before what it points at (batches).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from libs.commitlog.epochs import LeaderEpochs
from libs.commitlog.file_names import INDEX, LEFTOVERS, LOG, SWAP, TIME_INDEX, TRANSACTION_INDEX, offset_of, offsets_of, path_of
from libs.commitlog.gapless import FILE_NAME as GAPLESS
from libs.commitlog.gapless import NOWHERE, Gaps, parse_gaps
from libs.commitlog.index import OFFSET_ENTRY, TIME_ENTRY
from libs.commitlog.inspection.batches import Damage, SeenBatch, walk
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.identity import read_topic_id
from libs.commitlog.inspection.indexes import IndexContent, parse_index
from libs.commitlog.inspection.reading import InspectedFile, ReadOnlyFiles, list_names, read_whole
from libs.commitlog.inspection.saved_state import SavedProducers, read_epochs, read_saved
from libs.commitlog.producers import NO_OFFSET, ProducerEntry, ProducerState
from libs.commitlog.transaction_index import ENTRY
from libs.wire.markers import read_marker

REFUSED = "the partition does not open, so that nothing is cut silently; a replica may have the data"


@dataclass(slots=True)
class SegmentSeen:
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
class PartitionSeen:
    path: str
    is_running: bool = False
    topic_id: bytes | None = None
    gaps: Gaps = field(default_factory=lambda: Gaps(NOWHERE))
    segments: list[SegmentSeen] = field(default_factory=list)
    epochs: LeaderEpochs | None = None
    saved: list[SavedProducers] = field(default_factory=list)
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)  # what the directory's files say of it

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
        """Where each of them began; readers of committed records stop at the first."""
        first_offsets = (entry.transaction_first_offset for entry in self.producers.values())
        return sorted(offset for offset in first_offsets if offset != NO_OFFSET)

    @property
    def saved_to(self) -> int:
        """What batches before it say was written beside them too. Kafka, which leaves no resume points, does so at once."""
        if self.resume_point is not None:
            return self.resume_point.offset
        return NOWHERE if self.gaps.before == NOWHERE else 0

    @property
    def resume_point(self) -> SavedProducers | None:
        """The newest; everything before it is known to be on disk."""
        return next((one for one in reversed(self.saved) if one.segment is not None), None)


class PartitionReader:
    """Fills `seen` and reports what it stumbles over. `indexes`: by base offset."""

    def __init__(self, files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool) -> None:
        self.files, self.findings = files, findings
        self.seen = PartitionSeen(path, is_running)
        self.indexes: dict[int, tuple[IndexContent | None, IndexContent | None]] = {}
        self._read_what_points()
        newest = self.seen.resume_point or (self.seen.saved[-1] if self.seen.saved else None)
        self._producers = ProducerState(dict(newest.entries) if newest is not None else {})
        self._producers_as_of = newest.offset if newest is not None else 0
        self.seen.producers = self._producers.entries

    def look(self) -> PartitionSeen:
        """Reads batches only behind the newest saved state: for the log's end and the producers."""
        segments, point = self.seen.segments, self.seen.resume_point
        at = max((i for i, segment in enumerate(segments) if segment.base_offset <= self._producers_as_of), default=0)
        saved = point.segment if point is not None else None
        for segment in segments[at:]:
            for _ in self.walk(segment, saved.size if saved is not None and saved.base_offset == segment.base_offset else 0):
                pass
        if point is not None and segments and segments[-1].next_offset < point.offset:
            segments[-1].next_offset = point.offset  # nothing came behind it
        return self.seen

    def batches(self, start_offset: int) -> Iterator[tuple[SegmentSeen, SeenBatch | Damage]]:
        """Those that end at `start_offset` or later, and the damage between them. A wrong CRC is reported too."""
        for segment in self.seen.segments:
            if segment.is_last or segment.next_offset > start_offset:
                for one in self.walk(segment):
                    if isinstance(one, Damage):
                        yield segment, one
                    elif one.header.last_offset >= start_offset:
                        if not one.crc_matches and not self.is_being_written(segment, one.end):
                            words = f"the batch does not match its CRC; {self.outlook(segment, one.position)}"
                            self.findings.problem(segment.path, one.position, words)
                        yield segment, one

    def walk(self, segment: SegmentSeen, position: int = 0) -> Iterator[SeenBatch | Damage]:
        """The batches of a segment from `position`. Damage is reported; producers and the log's end are followed."""
        try:
            file = InspectedFile(self.files, segment.path)
            segment.size = file.size
            for one in walk(file, segment.base_offset, position):
                if isinstance(one, Damage):
                    self._report(segment, one)
                elif one.crc_matches:
                    self._follow(segment, one)
                yield one
        except FileNotFoundError:
            self._gone(segment)
        except OSError as error:
            self.findings.problem(segment.path, None, f"cannot be read: {error.strerror}")

    def _follow(self, segment: SegmentSeen, batch: SeenBatch) -> None:
        header = batch.header
        if segment.is_last:
            segment.next_offset = max(segment.next_offset, header.last_offset + 1)
        if header.producer_id >= 0 and header.base_offset >= self._producers_as_of:
            self._producers.replay(header, read_marker(batch.content) if header.is_control else None)

    def _report(self, segment: SegmentSeen, damage: Damage) -> None:
        if self.is_being_written(segment, damage.end):
            self.findings.note(segment.path, damage.position, f"a batch is being written ({damage.end - damage.position} bytes)")
            return
        segment.damaged_bytes += damage.end - damage.position
        behind = "to the end of the file" if damage.end == segment.size else f"up to the next whole batch at {damage.end}"
        outlook = self.outlook(segment, damage.position)
        words = f"{damage.words}; {damage.end - damage.position} bytes {behind} are unreadable; {outlook}"
        self.findings.problem(segment.path, damage.position, words)

    def is_being_written(self, segment: SegmentSeen, end: int) -> bool:
        return self.seen.is_running and segment.is_last and end == segment.size

    def outlook(self, segment: SegmentSeen, position: int) -> str:
        """What damage there means."""
        point = self.seen.resume_point
        if point is None or point.segment is None:
            return "the next start after a crash cuts the log here"
        if (segment.base_offset, position) < (point.segment.base_offset, point.segment.size):
            return "it was synced, so a start does not look here, and reads fail; a replica may have the data"
        return "the next start cuts the log here"

    def _gone(self, segment: SegmentSeen) -> None:
        if not segment.is_gone:
            segment.is_gone = True
            self.findings.note(segment.path, None, "went away while the directory was read")

    # --- what points

    def _read_what_points(self) -> None:
        seen, files, findings = self.seen, self.files, self.findings
        names = list_names(files, seen.path, findings)
        if GAPLESS in names:
            seen.gaps = parse_gaps(read_whole(files, f"{seen.path}/{GAPLESS}", findings))
        seen.topic_id = read_topic_id(files, seen.path, findings)
        seen.epochs = read_epochs(files, seen.path, findings)
        seen.saved = read_saved(files, seen.path, names, findings)
        seen.leftovers = [name for name in names if name.endswith((*LEFTOVERS, SWAP))]
        bases = offsets_of(names, LOG)
        if not bases:
            findings.problem(seen.path, None, "there is no segment here")
            return
        seen.segments = [SegmentSeen(base, path_of(seen.path, base, LOG)) for base in bases]
        for segment, following in zip(seen.segments, bases[1:], strict=False):
            segment.next_offset = following
        seen.segments[-1].is_last, seen.segments[-1].next_offset = True, bases[-1]
        for segment in seen.segments:
            self.indexes[segment.base_offset] = self._read_indexes(segment)
        for name in names:
            for suffix in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
                base = offset_of(name, suffix)
                if base is not None and base not in self.indexes:
                    findings.note(f"{seen.path}/{name}", None, "has no log beside it: the next start removes it")
        indexed = offsets_of(names, TRANSACTION_INDEX)
        for segment in seen.segments:
            try:
                segment.size = files.size_of(segment.path)
                if segment.base_offset in indexed:
                    index = path_of(seen.path, segment.base_offset, TRANSACTION_INDEX)
                    segment.aborted_transactions = files.size_of(index) // ENTRY.size
            except FileNotFoundError:
                self._gone(segment)
            except OSError as error:
                findings.problem(segment.path, None, f"cannot be read: {error.strerror}")
        self._check_resume_point()

    def _read_indexes(self, segment: SegmentSeen) -> tuple[IndexContent | None, IndexContent | None]:
        found: list[IndexContent | None] = []
        for suffix, entry in ((INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
            path = path_of(self.seen.path, segment.base_offset, suffix)
            content = read_whole(self.files, path, self.findings)
            if content is None:
                # A running log begins a segment with the .log, and retention takes that away first.
                if self.files.exists(segment.path) and not (self.seen.is_running and segment.is_last):
                    self.findings.problem(path, None, "is missing or unreadable: it is made again from the log when it is needed")
                found.append(None)
            else:
                found.append(parse_index(path, content, entry, is_last=segment.is_last, findings=self.findings))
        offsets, times = found
        segment.index_entries = len(offsets.entries) if offsets is not None else None
        if times is not None:
            segment.time_entries = len(times.entries)
            segment.greatest_timestamp = times.entries[-1][0] if times.entries else -1
        return offsets, times

    def _check_resume_point(self) -> None:
        point = self.seen.resume_point
        if point is None or point.segment is None or self.seen.is_running:
            return
        segment = next((one for one in self.seen.segments if one.base_offset == point.segment.base_offset), None)
        if segment is None:
            self.findings.problem(point.path, None, f"needs the segment of {point.segment.base_offset}, which is gone: {REFUSED}")
        elif segment.size < point.segment.size:
            words = f"{point.segment.size} bytes were synced, {segment.size} are there: {REFUSED}"
            self.findings.problem(segment.path, segment.size, words)
