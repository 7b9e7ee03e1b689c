"""Producer state of a partition: which batches of an idempotent producer are already in the log (kafka-facts, section 5).

Appends ask `check`, then `record`; the log then calls `commit` or, if the write failed, `revert`. Several batches may be recorded
before one commit. Recovery and followers call `replay`, which checks nothing: what is in the log is true.
"""

from typing import NamedTuple

from libs.wire.batches import MAX_SEQUENCE, BatchError, BatchHeader
from libs.wire.errors import ErrorCode

CACHED_BATCHES = 5
NO_OFFSET = -1


class CachedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """Replaced, never changed, so that the journal can keep the old one. `batches`: oldest first, at most five."""

    epoch: int
    batches: tuple[CachedBatch, ...]
    coordinator_epoch: int
    last_timestamp: int
    transaction_first_offset: int  # NO_OFFSET: no transaction is open


class Fresh:
    """Not in the log yet, and in sequence."""

    __slots__ = ()


class Duplicate(NamedTuple):
    """In the log already: answer these offsets once they are committed, and append nothing."""

    base_offset: int
    last_offset: int
    timestamp: int


FRESH = Fresh()


class ProducerState:
    def __init__(self, entries: dict[int, ProducerEntry] | None = None) -> None:
        self.entries = entries if entries is not None else {}
        self._journal: list[tuple[int, ProducerEntry | None]] = []

    def check(self, header: BatchHeader) -> Fresh | Duplicate:
        """Whether a client's batch may be appended. Raises BatchError 45 or 47."""
        producer_id = header.producer_id
        if producer_id < 0:
            return FRESH
        entry = self.entries.get(producer_id)
        if entry is None:
            return FRESH  # Kafka: a producer that was forgotten may go on where it was
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch != entry.epoch:
            if epoch < entry.epoch:
                raise BatchError(
                    ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {epoch} of producer {producer_id} is below {entry.epoch}"
                )
            if sequence != 0 and entry.epoch >= 0:
                raise BatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} starts epoch {epoch} with sequence {sequence}, not 0",
                )
            return FRESH
        delta = header.last_offset_delta
        last_sequence = (sequence + delta) & MAX_SEQUENCE
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == delta:
                return Duplicate(batch.last_offset - delta, batch.last_offset, batch.timestamp)
        expected = (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE if entry.batches else 0
        if sequence != expected and epoch >= 0:
            raise BatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sends sequence {sequence}, expected {expected}",
            )
        return FRESH

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """A checked batch is about to be appended at `base_offset`."""
        producer_id = header.producer_id
        if producer_id >= 0:
            self._journal.append((producer_id, self.entries.get(producer_id)))
            self._advance(header, base_offset, header.max_timestamp)

    def record_stamped(self, header: BatchHeader, base_offset: int, log_append_time_ms: int) -> None:
        """As `record`, for a batch whose timestamp the log sets."""
        if header.producer_id >= 0:
            self._journal.append((header.producer_id, self.entries.get(header.producer_id)))
            self._advance(header, base_offset, log_append_time_ms)

    def commit(self) -> None:
        if self._journal:
            self._journal.clear()

    def revert(self) -> None:
        """Forgets what was recorded since the last commit."""
        for producer_id, entry in reversed(self._journal):
            if entry is None:
                self.entries.pop(producer_id, None)
            else:
                self.entries[producer_id] = entry
        self._journal.clear()

    def as_of(self, end_offset: int) -> dict[int, ProducerEntry]:
        """The entries without what was recorded for batches at or past `end_offset`, which are not written yet."""
        if not self._journal:
            return self.entries
        entries = dict(self.entries)
        for producer_id, entry in reversed(self._journal):
            if entries[producer_id].batches[-1].last_offset >= end_offset:
                if entry is None:
                    del entries[producer_id]
                else:
                    entries[producer_id] = entry
        return entries

    def replay(self, header: BatchHeader, coordinator_epoch: int = -1) -> None:
        """A batch as it stands in the log, its producer id set. `coordinator_epoch` belongs to control batches."""
        if header.is_control:
            self._end_transaction(header, coordinator_epoch)
        else:
            self._advance(header, header.base_offset, header.max_timestamp)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that have been silent for so long, unless they have a transaction open. Returns how many."""
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        return len(gone)

    def _advance(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        delta = header.last_offset_delta
        batch = CachedBatch((header.base_sequence + delta) & MAX_SEQUENCE, base_offset + delta, delta, timestamp)
        batches: tuple[CachedBatch, ...] = (batch,)
        coordinator_epoch, first_offset = -1, NO_OFFSET
        if entry is not None:
            coordinator_epoch, first_offset = entry.coordinator_epoch, entry.transaction_first_offset
            if entry.epoch == header.producer_epoch:  # KIP-360: a bumped epoch starts over, old sequences mean nothing
                batches = (*entry.batches[1 - CACHED_BATCHES :], batch)
        if first_offset == NO_OFFSET and header.is_transactional:
            first_offset = base_offset
        self.entries[producer_id] = ProducerEntry(header.producer_epoch, batches, coordinator_epoch, timestamp, first_offset)

    def _end_transaction(self, header: BatchHeader, coordinator_epoch: int) -> None:
        entry = self.entries.get(header.producer_id)
        batches = entry.batches if entry is not None and entry.epoch == header.producer_epoch else ()
        self.entries[header.producer_id] = ProducerEntry(
            header.producer_epoch, batches, coordinator_epoch, header.max_timestamp, NO_OFFSET
        )
