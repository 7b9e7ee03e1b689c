"""The producer state of a partition: the latest batches of each idempotent producer in the log.

Appends call `check`, then `record` (for a marker `check_marker`, then `record_marker`). The log then calls `commit` or, if the
write failed, `revert`. Several batches may be recorded before one commit. Recovery and followers call `replay`, which checks
nothing, since the log is the truth.
"""

from typing import NamedTuple

from libs.commitlog.producers.transactions import EndedTransaction, UnstableTransactions
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import MAX_SEQUENCE, BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker

CACHED_BATCHES = 5
NO_OFFSET = -1


class CachedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """The state of one producer. It is replaced, never changed, so that the journal can keep the old one. `batches`: oldest
    first, at most five."""

    epoch: int
    batches: tuple[CachedBatch, ...]
    coordinator_epoch: int
    last_timestamp: int
    transaction_first_offset: int  # NO_OFFSET: no transaction is open


class Fresh:
    """A batch that is in sequence and not in the log yet."""

    __slots__ = ()


class Duplicate(NamedTuple):
    """A batch that is in the log already: answer these offsets once they are committed, and append nothing."""

    base_offset: int
    last_offset: int
    timestamp: int


FRESH = Fresh()


class ProducerState:
    def __init__(self, entries: dict[int, ProducerEntry] | None = None) -> None:
        self.entries = entries if entries is not None else {}
        self.transactions = UnstableTransactions(
            (entry.transaction_first_offset, producer_id)
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset != NO_OFFSET
        )
        self.ended: list[EndedTransaction] = []
        """The transactions that committed or replayed markers ended. The owner of the aborted ones takes them from here."""
        self._ending: list[EndedTransaction] = []
        self._journal: list[tuple[int, ProducerEntry | None, int]] = []
        self._appended: set[int] = set()  # since the last look at who is silent
        self._silent_since: dict[int, int] = {}

    def check(self, header: BatchHeader) -> Fresh | Duplicate:
        """Whether a client's batch may be appended. Raises BatchError: OUT_OF_ORDER_SEQUENCE_NUMBER (45), INVALID_PRODUCER_EPOCH
        (47) or INVALID_TXN_STATE (48)."""
        producer_id = header.producer_id
        if producer_id < 0:
            return FRESH
        entry = self.entries.get(producer_id)
        if entry is None:
            return FRESH  # as in Kafka, a producer that was forgotten may continue with its sequence
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch != entry.epoch:
            if epoch < entry.epoch:
                raise _former_epoch(header, entry)
            if sequence != 0 and entry.epoch >= 0:
                raise BatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} starts epoch {epoch} with sequence {sequence}, not 0",
                )
            return _fresh_if_inside(entry, header)
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
        return _fresh_if_inside(entry, header)

    def check_epoch(self, header: BatchHeader) -> None:
        """Whether a coordinator's batch, which has no sequence, may be appended. Raises BatchError: INVALID_PRODUCER_EPOCH."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _former_epoch(header, entry)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self.entries

    def coordinator_epoch(self, producer_id: int) -> int:
        """The coordinator epoch of the producer's last marker; -1 if none is known."""
        entry = self.entries.get(producer_id)
        return entry.coordinator_epoch if entry is not None else -1

    def in_transaction(self, header: BatchHeader) -> bool:
        """Whether the batch's producer has begun its transaction here already, in this epoch."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return False
        return entry.epoch == header.producer_epoch

    def check_marker(self, header: BatchHeader, marker: Marker, *, raises_epoch: bool = False) -> None:
        """Whether a coordinator's marker may be appended. `raises_epoch`: its epoch must be above that of the transaction
        (KIP-890). Raises BatchError: INVALID_PRODUCER_EPOCH (47), TRANSACTION_COORDINATOR_FENCED (52) or, where the transaction
        has the marker's epoch, INVALID_TXN_STATE (48)."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:  # from an older incarnation: it must not end the newer one's transaction
            raise BatchError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for epoch {header.producer_epoch} of producer {header.producer_id}, which is at {entry.epoch}",
            )
        if raises_epoch and header.producer_epoch == entry.epoch and entry.transaction_first_offset != NO_OFFSET:
            raise BatchError(
                ErrorCode.INVALID_TXN_STATE,
                f"a marker for epoch {header.producer_epoch} of producer {header.producer_id}, whose transaction has the same",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise BatchError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {marker.coordinator_epoch}, {entry.coordinator_epoch} was here already",
            )

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """Records a checked batch that is about to be appended at `base_offset`."""
        producer_id = header.producer_id
        if producer_id >= 0:
            self._journal.append((producer_id, self.entries.get(producer_id), base_offset))
            self._advance(header, base_offset, header.max_timestamp)

    def record_stamped(self, header: BatchHeader, base_offset: int, log_append_time_ms: int) -> None:
        """Records a batch as `record` does, with the timestamp that the log sets."""
        if header.producer_id >= 0:
            self._journal.append((header.producer_id, self.entries.get(header.producer_id), base_offset))
            self._advance(header, base_offset, log_append_time_ms)

    def record_marker(self, header: BatchHeader, base_offset: int, marker: Marker) -> None:
        """Records a checked marker that is about to be appended at `base_offset`."""
        self._journal.append((header.producer_id, self.entries.get(header.producer_id), base_offset))
        ended = self._end_transaction(header, base_offset, marker)
        if ended is not None:
            self._ending.append(ended)

    def commit(self) -> None:
        if self._journal:
            self._journal.clear()
            if self._ending:
                self.ended += self._ending
                self._ending.clear()

    def revert(self) -> None:
        """Takes back everything that was recorded since the last commit."""
        for producer_id, entry, _ in reversed(self._journal):
            before = NO_OFFSET if entry is None else entry.transaction_first_offset
            now = self.entries[producer_id].transaction_first_offset
            if before != now:
                if before == NO_OFFSET:
                    self.transactions.revert_begin(producer_id, now)
                else:
                    self.transactions.revert_end(producer_id, before)
            if entry is None:
                del self.entries[producer_id]
            else:
                self.entries[producer_id] = entry
        self._journal.clear()
        self._ending.clear()

    def as_of(self, end_offset: int) -> dict[int, ProducerEntry]:
        """The entries without the batches at or past `end_offset`, which are not written yet."""
        if not self._journal:
            return self.entries
        entries = dict(self.entries)
        for producer_id, entry, offset in reversed(self._journal):
            if offset >= end_offset:
                if entry is None:
                    del entries[producer_id]
                else:
                    entries[producer_id] = entry
        return entries

    def replay(self, header: BatchHeader, marker: Marker | None = None) -> None:
        """Replays a batch of the log that has a producer id. `marker` is the marker of a control batch; None ends no
        transaction."""
        if not header.is_control:
            self._advance(header, header.base_offset, header.max_timestamp)
        elif marker is not None:
            ended = self._end_transaction(header, header.base_offset, marker)
            if ended is not None:
                self.ended.append(ended)

    def take_ended(self) -> list[EndedTransaction]:
        ended, self.ended = self.ended, []
        return ended

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that were silent for so long, unless they have an open transaction. Returns their number."""
        since = self._silent_since
        for producer_id in self._appended:
            since[producer_id] = now_ms
        self._appended.clear()
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - since.setdefault(producer_id, now_ms) >= expiration_ms and entry.transaction_first_offset == NO_OFFSET
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        if len(since) > len(self.entries):
            self._silent_since = {producer_id: since[producer_id] for producer_id in self.entries}
        return len(expired)

    def _advance(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        delta = header.last_offset_delta
        batch = CachedBatch(header.last_sequence, base_offset + delta, delta, timestamp)
        batches: tuple[CachedBatch, ...] = (batch,)
        coordinator_epoch, first_offset = -1, NO_OFFSET
        if entry is not None:
            coordinator_epoch, first_offset = entry.coordinator_epoch, entry.transaction_first_offset
            if entry.epoch == header.producer_epoch:  # KIP-360: a bumped epoch starts over, and old sequences have no meaning
                batches = (*entry.batches[1 - CACHED_BATCHES :], batch)
        if first_offset == NO_OFFSET and header.is_transactional:
            first_offset = base_offset
            self.transactions.begin(producer_id, first_offset)
        self.entries[producer_id] = ProducerEntry(header.producer_epoch, batches, coordinator_epoch, timestamp, first_offset)
        self._appended.add(producer_id)

    def _end_transaction(self, header: BatchHeader, offset: int, marker: Marker) -> EndedTransaction | None:
        """The transaction that a marker ends. None: the log has no records of it, and readers need not know of it."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        batches = entry.batches if entry is not None and entry.epoch == header.producer_epoch else ()
        self.entries[producer_id] = ProducerEntry(
            header.producer_epoch, batches, marker.coordinator_epoch, header.max_timestamp, NO_OFFSET
        )
        self._appended.add(producer_id)
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return None
        return self.transactions.end(producer_id, entry.transaction_first_offset, offset, aborted=marker.aborts)


def _former_epoch(header: BatchHeader, entry: ProducerEntry) -> BatchError:
    reason = f"epoch {header.producer_epoch} of producer {header.producer_id} is below {entry.epoch}"
    return BatchError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)


def _fresh_if_inside(entry: ProducerEntry, header: BatchHeader) -> Fresh:
    """Accepts a batch, unless it is outside of its producer's open transaction: it would be aborted with that. Raises
    BatchError."""
    if entry.transaction_first_offset != NO_OFFSET and not header.is_transactional:
        raise BatchError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has a transaction open since offset {entry.transaction_first_offset}",
        )
    return FRESH
