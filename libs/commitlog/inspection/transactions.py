"""The `.txnindex` of each segment, held against the batches: the transactions that were aborted, and no others."""

from libs.commitlog.inspection.batches import SeenBatch
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.transaction_index import ENTRY, AbortedTransaction
from libs.wire.markers import Marker, read_marker


def parse_transactions(path: str, content: bytes, findings: Findings) -> list[tuple[int, AbortedTransaction]]:
    """The entries that make sense by themselves, each with its byte in the file."""
    ragged = len(content) % ENTRY.size
    if ragged:
        findings.problem(path, len(content) - ragged, f"{len(content)} bytes are not a whole number of entries of {ENTRY.size}")
    found: list[tuple[int, AbortedTransaction]] = []
    before = -1
    for slot, (version, *fields) in enumerate(ENTRY.iter_unpack(content[: len(content) - ragged])):
        entry, position = AbortedTransaction._make(fields), slot * ENTRY.size
        where = f"entry {slot} ({_span(entry)})"
        if version != 0:
            findings.problem(path, position, f"{where} has version {version}, not 0")
        elif not 0 <= entry.first_offset <= entry.last_offset or entry.last_stable_offset < 0:
            findings.problem(path, position, f"{where} ends before it begins, or has no last stable offset")
        elif entry.last_offset <= before:
            findings.problem(path, position, f"{where} is out of order: the one before ends at {before}")
        else:
            found.append((position, entry))
        before = entry.last_offset
    return found


class TransactionCheck:
    """Told the batches of a partition in order. Entries for markers at or past `saved_to` may not be written yet."""

    def __init__(self, findings: Findings, saved_to: int) -> None:
        self._findings, self._saved_to = findings, saved_to
        self._began: dict[int, int] = {}  # by producer, as far as its batches were seen
        self._markers: dict[int, tuple[int, Marker]] = {}  # of this segment: producer and marker by offset
        self._aborted: dict[int, int] = {}  # of this segment: where the transaction began whose marker stands at an offset

    def saw(self, batch: SeenBatch) -> None:
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
        """How many entries its index has."""
        entries = parse_transactions(path, content, self._findings)
        for position, entry in entries:
            words = self._contradiction(entry)
            if words is not None:
                self._findings.problem(path, position, f"the entry of {_span(entry)} {words}")
        named = {entry.last_offset for _, entry in entries}
        for offset, began in self._aborted.items():
            if offset not in named and offset < self._saved_to:
                producer_id, _ = self._markers[offset]
                words = f"has no entry for producer {producer_id}, offsets {began} to {offset}, which were aborted"
                self._findings.problem(path, None, f"{words}: a start that sees this makes the file again from the batches")
        self._markers, self._aborted = {}, {}
        return len(content) // ENTRY.size

    def _contradiction(self, entry: AbortedTransaction) -> str | None:
        known = self._markers.get(entry.last_offset)
        if known is None:
            return "should end with a marker in this segment, and does not"
        producer_id, marker = known
        if producer_id != entry.producer_id or not marker.aborts:
            return f"ends with a marker that {'aborts' if marker.aborts else 'commits'} what producer {producer_id} wrote"
        began = self._aborted.get(entry.last_offset)
        if began is not None and entry.first_offset > began:
            return f"leaves out what it wrote from offset {began} on"
        return None


def _span(entry: AbortedTransaction) -> str:
    return f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
