"""The transactions of the batches that the cleaner copies. Aborted batches are dropped, and a marker stays while it is needed.

Like Kafka's CleanedTransactionMetadata, it is given every transactional batch and every marker in the order of the log.
"""

from collections.abc import Iterable

from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import Marker


class UnindexedAbort(Exception):
    """An abort marker whose transaction no index names. To clean by such an index would keep aborted records."""


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset)
        self._next = 0
        self._ongoing: dict[int, AbortedTransaction] = {}  # the transactions that end with an abort, by producer
        self._with_data: set[int] = set()  # the producers of those with a batch that was seen
        self._committed: set[int] = set()  # the producers with data of a transaction that is not aborted

    def aborts(self, header: BatchHeader) -> bool:
        """Notes a transactional data batch. Returns whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        entry = self._ongoing.get(producer_id)
        if entry is not None and entry.last_offset < header.base_offset:  # the marker is gone
            del self._ongoing[producer_id]
            self._with_data.discard(producer_id)
            entry = None
        if entry is None:
            self._committed.add(producer_id)
            return False
        self._with_data.add(producer_id)
        return True

    def end(self, header: BatchHeader, marker: Marker) -> tuple[bool, AbortedTransaction | None]:
        """Notes a marker. Returns whether it can go, since no data of its transaction was seen, and the entry that the index must
        have while it stays. Raises UnindexedAbort."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if not marker.aborts:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data, None
        entry = self._ongoing.pop(producer_id, None)
        had_data = producer_id in self._with_data
        self._with_data.discard(producer_id)
        if producer_id in self._committed:
            raise UnindexedAbort(f"the marker at {header.base_offset} aborts data of producer {producer_id} that no index names")
        return not had_data, entry if had_data else None

    def _begin_up_to(self, offset: int) -> None:
        aborted = self._aborted
        while self._next < len(aborted) and aborted[self._next].first_offset <= offset:
            entry = aborted[self._next]
            self._next += 1
            earlier = self._ongoing.get(entry.producer_id)
            if earlier is None or earlier.last_offset < entry.first_offset:
                self._ongoing[entry.producer_id] = entry
                self._with_data.discard(entry.producer_id)
