"""Everything that can be checked of one partition, in one pass over its bytes."""

from libs.commitlog.file_names import LOG, TRANSACTION_INDEX
from libs.commitlog.inspection.batches import Damage, SeenBatch, why_records_unsound, why_unsound
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.indexes import IndexCheck
from libs.commitlog.inspection.partition import PartitionReader, PartitionSeen, SegmentSeen
from libs.commitlog.inspection.reading import ReadOnlyFiles, read_whole
from libs.commitlog.inspection.saved_state import SavedProducers, SavedStateCheck
from libs.commitlog.inspection.transactions import TransactionCheck


def verify_partition(
    files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool, records: bool = False
) -> PartitionSeen:
    """Reads every byte. `records`: opens every batch too."""
    return _Verifier(PartitionReader(files, path, findings, is_running=is_running), records).verify()


class _Verifier:
    def __init__(self, reader: PartitionReader, records: bool) -> None:
        self._reader, self._findings, self._seen, self._records = reader, reader.findings, reader.seen, records
        self._state = SavedStateCheck(self._seen.path, self._seen.saved, self._seen.epochs, self._findings)
        self._transactions = TransactionCheck(self._findings, self._seen.saved_to)
        self._expected = self._seen.first_offset
        self._is_whole = True
        self._is_behind_damage = False

    def verify(self) -> PartitionSeen:
        seen = self._seen
        for segment in seen.segments:
            self._verify_segment(segment)
        is_whole = self._is_whole and not any(segment.damaged_bytes for segment in seen.segments)
        # What retention took meanwhile was not seen, and nobody can say what was in it.
        start = max((segment.next_offset for segment in seen.segments if segment.is_gone), default=seen.first_offset)
        start = max(start, seen.gaps.before)
        self._state.ended(*(start, seen.end_offset), is_whole=is_whole, is_running=seen.is_running)
        return seen

    def _verify_segment(self, segment: SegmentSeen) -> None:
        check = IndexCheck(segment.base_offset, *self._reader.indexes[segment.base_offset], self._findings)
        segment.batches = segment.records = 0
        self._begin(segment)
        point = self._resume_point_in(segment)
        for one in self._reader.walk(segment):
            if isinstance(one, Damage) or not one.crc_matches:
                check.skipped(one.end)
                if isinstance(one, SeenBatch):
                    self._report_crc(segment, one)
                self._is_behind_damage, point = True, None
                continue
            if point is not None and point.segment is not None and one.position >= point.segment.size:
                self._check_boundary(point, one.position)
                point = None
            self._check_batch(segment, one)
            self._is_behind_damage = False
            segment.batches += 1
            segment.records += one.header.record_count
            self._expected = max(self._expected, one.header.last_offset + 1)
            check.saw(one)
            self._state.saw(segment.path, one)
            if one.header.producer_id >= 0:
                self._transactions.saw(one)
        if segment.is_gone:
            self._is_behind_damage = True
            return
        if point is not None and point.segment is not None and point.segment.size <= segment.size:
            self._check_boundary(point, segment.size)
        check.ended(segment.size, is_sealed=not segment.is_last)
        if self._expected > segment.next_offset and not segment.is_last:
            words = f"goes on to offset {self._expected - 1}, the next segment begins at {segment.next_offset}"
            self._findings.problem(segment.path, segment.size, words)
        path = segment.path.removesuffix(LOG) + TRANSACTION_INDEX
        content = read_whole(self._reader.files, path, self._findings) or b""
        segment.aborted_transactions = self._transactions.segment_ended(path, content)

    def _begin(self, segment: SegmentSeen) -> None:
        if segment.base_offset > max(self._expected, self._seen.gaps.before) and not self._is_behind_damage:
            words = f"offsets {self._expected} to {segment.base_offset - 1} are missing before this segment"
            self._findings.problem(segment.path, 0, words)
        self._expected = max(self._expected, segment.base_offset)

    def _report_crc(self, segment: SegmentSeen, batch: SeenBatch) -> None:
        if self._reader.is_being_written(segment, batch.end):
            return
        self._is_whole = False
        words = f"{_span(batch)} does not match its CRC; {self._reader.outlook(segment, batch.position)}"
        self._findings.problem(segment.path, batch.position, words)

    def _check_batch(self, segment: SegmentSeen, batch: SeenBatch) -> None:
        header, expected, words = batch.header, self._expected, []
        if header.base_offset < expected:
            words.append(f"goes back: offset {expected} is next")
        elif header.base_offset > max(expected, self._seen.gaps.before) and not self._is_behind_damage:
            words.append(f"comes after a gap: offset {expected} is next")
        unsound = why_unsound(header)
        if unsound is None and self._records:
            unsound = why_records_unsound(batch)
        if unsound is not None:
            words.append(f"contradicts itself: {unsound}")
        for one in words:
            self._findings.problem(segment.path, batch.position, f"{_span(batch)} {one}")

    def _resume_point_in(self, segment: SegmentSeen) -> SavedProducers | None:
        point = self._seen.resume_point
        is_here = point is not None and point.segment is not None and point.segment.base_offset == segment.base_offset
        return point if is_here else None

    def _check_boundary(self, point: SavedProducers, position: int) -> None:
        """A batch begins at `position`, the first at or behind the one that the resume point names, or the file ends there."""
        assert point.segment is not None
        if position != point.segment.size:
            words = f"says that a batch begins at byte {point.segment.size} of segment {point.segment.base_offset}, none does"
            self._findings.problem(point.path, None, words)
        elif self._expected != point.offset:
            words = f"says that offset {point.offset} comes at byte {position} of its segment, it is {self._expected}"
            self._findings.problem(point.path, None, words)


def _span(batch: SeenBatch) -> str:
    return f"the batch of offsets {batch.header.base_offset} to {batch.header.last_offset}"
