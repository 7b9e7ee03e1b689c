"""The `.txnindex` of each segment, held against the batches: the transactions that were aborted, and no others."""

from libs.commitlog.inspection.batches import InspectedBatch
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.producers.transaction_index import ENTRY, AbortedTransaction
from libs.wire.record_batches.markers import Marker, read_marker


def parse_transactions(path: str, content: bytes, findings: Findings) -> list[tuple[int, AbortedTransaction]]:
    """The entries that are sound by themselves, each with its position in the file."""
    ragged = len(content) % ENTRY.size
    if ragged:
        findings.problem(path, len(content) - ragged, f"{len(content)} bytes are not a whole number of entries of {ENTRY.size}")
    entries: list[tuple[int, AbortedTransaction]] = []
    before = -1
    for slot, (version, *fields) in enumerate(ENTRY.iter_unpack(content[: len(content) - ragged])):
        entry, position = AbortedTransaction._make(fields), slot * ENTRY.size
        place = f"entry {slot} ({_span(entry)})"
        if version != 0:
            findings.problem(path, position, f"{place} has version {version}, not 0")
        elif not 0 <= entry.first_offset <= entry.last_offset or entry.last_stable_offset < 0:
            findings.problem(path, position, f"{place} ends before it begins, or has no last stable offset")
        elif entry.last_offset <= before:
            findings.problem(path, position, f"{place} is out of order: the one before ends at {before}")
        else:
            entries.append((position, entry))
        before = entry.last_offset
    return entries


class TransactionCheck:
    """A check of transaction indexes. It is given the batches of a partition in order. Entries for markers at or past `saved_to`
    may not be written yet."""

    def __init__(self, findings: Findings, saved_to: int) -> None:
        self._findings, self._saved_to = findings, saved_to
        self._began: dict[int, int] = {}  # start offset of the open transaction, by producer, as far as its batches were seen
        self._markers: dict[int, tuple[int, Marker]] = {}  # the markers of this segment: producer and marker by offset
        self._aborted: dict[int, int] = {}  # the aborts of this segment: start of the transaction, by the marker's offset

    def observe(self, batch: InspectedBatch) -> None:
        header = batch.header
        if not header.is_control:
            if header.is_transactional and header.record_count:
                self._began.setdefault(header.producer_id, header.base_offset)
            return
        marker = read_marker(batch.content)
        if marker is not None:
            self._markers[header.base_offset] = header.producer_id, marker
            began = self._began.pop(header.producer_id, None)
            if began is not None and marker.aborts:
                self._aborted[header.base_offset] = began

    def segment_ended(self, path: str, content: bytes) -> int:
        """Ends a segment. Returns the number of entries in its index."""
        entries = parse_transactions(path, content, self._findings)
        for position, entry in entries:
            message = self._contradiction(entry)
            if message is not None:
                self._findings.problem(path, position, f"the entry of {_span(entry)} {message}")
        named = {entry.last_offset for _, entry in entries}
        for offset, began in self._aborted.items():
            if offset not in named and offset < self._saved_to:
                producer_id, _ = self._markers[offset]
                message = f"has no entry for producer {producer_id}, offsets {began} to {offset}, which were aborted"
                self._findings.problem(path, None, f"{message}: a start that sees this makes the file again from the batches")
        self._markers, self._aborted = {}, {}
        return len(content) // ENTRY.size

    def _contradiction(self, entry: AbortedTransaction) -> str | None:
        producer_marker = self._markers.get(entry.last_offset)
        if producer_marker is None:
            return "should end with a marker in this segment, and does not"
        producer_id, marker = producer_marker
        if producer_id != entry.producer_id or not marker.aborts:
            return f"ends with a marker that {'aborts' if marker.aborts else 'commits'} what producer {producer_id} wrote"
        began = self._aborted.get(entry.last_offset)
        if began is not None and entry.first_offset > began:
            return f"leaves out what it wrote from offset {began} on"
        return None


def _span(entry: AbortedTransaction) -> str:
    return f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
