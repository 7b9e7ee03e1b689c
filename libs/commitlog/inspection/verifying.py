"""Everything that can be checked of one partition, in one pass over its bytes."""

from libs.commitlog.files.file_names import LOG, TRANSACTION_INDEX
from libs.commitlog.inspection.batches import Damage, InspectedBatch, why_records_unsound, why_unsound
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.indexes import IndexCheck
from libs.commitlog.inspection.partition import InspectedPartition, InspectedSegment, PartitionReader
from libs.commitlog.inspection.reading import ReadOnlyFiles, read_whole
from libs.commitlog.inspection.saved_state import SavedProducers, SavedStateCheck
from libs.commitlog.inspection.transactions import TransactionCheck
from libs.wire.record_batches.batches import BatchError


def verify_partition(
    files: ReadOnlyFiles, path: str, findings: Findings, *, is_running: bool, records: bool = False
) -> InspectedPartition:
    """A check of one partition that reads every byte. `records`: it opens every batch too."""
    return _Verifier(PartitionReader(files, path, findings, is_running=is_running), records).verify()


class _Verifier:
    def __init__(self, reader: PartitionReader, records: bool) -> None:
        self._reader, self._findings, self._partition, self._records = reader, reader.findings, reader.partition, records
        self._state = SavedStateCheck(self._partition.path, self._partition.saved, self._partition.epochs, self._findings)
        self._transactions = TransactionCheck(self._findings, self._partition.saved_to)
        self._expected = self._partition.first_offset
        self._is_whole = True
        self._is_behind_damage = False

    def verify(self) -> InspectedPartition:
        partition = self._partition
        for segment in partition.segments:
            self._verify_segment(segment)
        is_whole = self._is_whole and not any(segment.damaged_bytes for segment in partition.segments)
        # Segments that retention took meanwhile were not seen, so their content is unknown.
        start = max((segment.next_offset for segment in partition.segments if segment.is_gone), default=partition.first_offset)
        start = max(start, partition.gaps.before)
        self._state.ended(start, partition.end_offset, is_whole=is_whole, is_running=partition.is_running)
        return partition

    def _verify_segment(self, segment: InspectedSegment) -> None:
        check = IndexCheck(segment.base_offset, *self._reader.indexes[segment.base_offset], self._findings)
        segment.batches = segment.records = 0
        self._begin(segment)
        point = self._resume_point_in(segment)
        for region in self._reader.walk(segment):
            if isinstance(region, Damage) or not region.crc_matches:
                check.skipped(region.end)
                if isinstance(region, InspectedBatch):
                    self._report_crc(segment, region)
                self._is_behind_damage, point = True, None
                continue
            if point is not None and point.segment is not None and region.position >= point.segment.size:
                self._check_boundary(point, region.position)
                point = None
            self._check_batch(segment, region)
            self._is_behind_damage = False
            segment.batches += 1
            segment.records += region.header.record_count
            self._expected = max(self._expected, region.header.last_offset + 1)
            check.observe(region)
            self._state.observe(segment.path, region)
            if region.header.producer_id >= 0:
                self._transactions.observe(region)
        if segment.is_gone:
            self._is_behind_damage = True
            return
        if point is not None and point.segment is not None and point.segment.size <= segment.size:
            self._check_boundary(point, segment.size)
        check.ended(segment.size, is_sealed=not segment.is_last)
        if self._expected > segment.next_offset and not segment.is_last:
            message = f"goes on to offset {self._expected - 1}, the next segment begins at {segment.next_offset}"
            self._findings.problem(segment.path, segment.size, message)
        path = segment.path.removesuffix(LOG) + TRANSACTION_INDEX
        content = read_whole(self._reader.files, path, self._findings) or b""
        segment.aborted_transactions = self._transactions.segment_ended(path, content)

    def _begin(self, segment: InspectedSegment) -> None:
        if segment.base_offset > max(self._expected, self._partition.gaps.before) and not self._is_behind_damage:
            message = f"offsets {self._expected} to {segment.base_offset - 1} are missing before this segment"
            self._findings.problem(segment.path, 0, message)
        self._expected = max(self._expected, segment.base_offset)

    def _report_crc(self, segment: InspectedSegment, batch: InspectedBatch) -> None:
        if self._reader.is_being_written(segment, batch.end):
            return
        self._is_whole = False
        message = f"{_span(batch)} does not match its CRC; {self._reader.damage_consequence(segment, batch.position)}"
        self._findings.problem(segment.path, batch.position, message)

    def _check_batch(self, segment: InspectedSegment, batch: InspectedBatch) -> None:
        header, expected, messages = batch.header, self._expected, []
        if header.base_offset < expected:
            messages.append(f"goes back: offset {expected} is next")
        elif header.base_offset > max(expected, self._partition.gaps.before) and not self._is_behind_damage:
            messages.append(f"comes after a gap: offset {expected} is next")
        unsound = why_unsound(header)
        if unsound is None and self._records:
            try:
                unsound = why_records_unsound(batch)
            except BatchError as error:
                message = f"{_span(batch)} is too large to be opened ({error.message}): its records were not checked"
                self._findings.note(segment.path, batch.position, message)
        if unsound is not None:
            messages.append(f"contradicts itself: {unsound}")
        for message in messages:
            self._findings.problem(segment.path, batch.position, f"{_span(batch)} {message}")

    def _resume_point_in(self, segment: InspectedSegment) -> SavedProducers | None:
        point = self._partition.resume_point
        is_here = point is not None and point.segment is not None and point.segment.base_offset == segment.base_offset
        return point if is_here else None

    def _check_boundary(self, point: SavedProducers, position: int) -> None:
        """Checks that the resume point names the start of a batch, or the end of the file. `position` is the first batch at or
        behind it."""
        assert point.segment is not None
        if position != point.segment.size:
            message = f"says that a batch begins at byte {point.segment.size} of segment {point.segment.base_offset}, none does"
            self._findings.problem(point.path, None, message)
        elif self._expected != point.offset:
            message = f"says that offset {point.offset} comes at byte {position} of its segment, it is {self._expected}"
            self._findings.problem(point.path, None, message)


def _span(batch: InspectedBatch) -> str:
    return f"the batch of offsets {batch.header.base_offset} to {batch.header.last_offset}"
