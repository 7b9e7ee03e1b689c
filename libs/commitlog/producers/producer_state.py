"""The producer state of a partition: the latest batches of each idempotent producer in the log.

Appends call `check`, then `record` (for a marker `check_marker`, then `record_marker`). Where that is plain, `record_next` does
both. The log then calls `commit` or, if the write failed, `revert`. Several batches may be recorded before one commit. Recovery
and followers call `replay`, which checks nothing, since the log is the truth.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from libs.commitlog.producers.producer_entries import (
    AFTER_ID,
    BATCH,
    BATCH_FIELDS,
    CACHED_BATCHES,
    FIRST_BATCH_AT,
    ID_SIZE,
    LAST_SEQUENCE,
    NO_OFFSET,
    PACK_AFTER,
    SECOND_BATCH_AT,
    UNPACK,
    CachedBatch,
    ProducerEntry,
    first_offset_of,
)
from libs.commitlog.producers.producer_table import PackedProducers, ProducerTable
from libs.commitlog.producers.transactions import EndedTransaction, UnstableTransactions
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import MAX_SEQUENCE, TRANSACTIONAL, BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker

__all__ = [
    "CACHED_BATCHES",
    "FRESH",
    "NO_OFFSET",
    "CachedBatch",
    "Duplicate",
    "Fresh",
    "ProducerEntry",
    "ProducerState",
]


class Fresh:
    """A batch that is in sequence and not in the log yet."""

    __slots__ = ()


class Duplicate(NamedTuple):
    """A batch that is in the log already: answer these offsets once they are committed, and append nothing."""

    base_offset: int
    last_offset: int
    timestamp: int


FRESH = Fresh()
LOOKED_AT_AT_ONCE: Final = 5_000
"""The producers at which a turn of expiry looks. It takes 4 ms where all expire and none of them is in the processor's cache."""
EVICTED_AT_ONCE: Final = 200
"""The producers that a turn evicts. Each may cost the copy of a bucket."""


class ProducerState:
    def __init__(self, entries: Mapping[int, ProducerEntry] | None = None) -> None:
        self.entries = entries if isinstance(entries, ProducerTable) else ProducerTable(entries)
        self.transactions = UnstableTransactions(self.entries.open_transactions())
        self.ended: list[EndedTransaction] = []
        """The transactions that committed or replayed markers ended. The owner of the aborted ones takes them from here."""
        self._ending: list[EndedTransaction] = []
        self._journal: list[tuple[int, bytes | None, int]] = []

    def check(self, header: BatchHeader) -> Fresh | Duplicate:
        """Whether a client's batch may be appended. Raises BatchError: OUT_OF_ORDER_SEQUENCE_NUMBER (45), INVALID_PRODUCER_EPOCH
        (47) or INVALID_TXN_STATE (48)."""
        producer_id = header.producer_id
        if producer_id < 0:
            return FRESH
        packed = self.entries.packed(producer_id)
        if packed is None:
            return FRESH  # as in Kafka, a producer that was forgotten may continue with its sequence
        known_epoch, _, _, first_offset, count = AFTER_ID.unpack_from(packed, ID_SIZE)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch != known_epoch:
            if epoch < known_epoch:
                raise _former_epoch(header, known_epoch)
            if sequence != 0 and known_epoch >= 0:
                raise BatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} starts epoch {epoch} with sequence {sequence}, not 0",
                )
        else:
            last = LAST_SEQUENCE.unpack_from(packed, len(packed) - BATCH.size)[0] if count else MAX_SEQUENCE
            expected = (last + 1) & MAX_SEQUENCE
            if sequence != expected:
                duplicate = _duplicate(packed, header)
                if duplicate is not None:
                    return duplicate
                if epoch >= 0:
                    raise BatchError(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        f"producer {producer_id} sends sequence {sequence}, expected {expected}",
                    )
        if first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            # It would be aborted with the transaction.
            raise BatchError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open since offset {first_offset}",
            )
        return FRESH

    def check_epoch(self, header: BatchHeader) -> None:
        """Whether a coordinator's batch, which has no sequence, may be appended. Raises BatchError: INVALID_PRODUCER_EPOCH."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _former_epoch(header, entry.epoch)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self.entries

    def coordinator_epoch(self, producer_id: int) -> int:
        """The coordinator epoch of the producer's last marker; -1 if none is known."""
        entry = self.entries.get(producer_id)
        return entry.coordinator_epoch if entry is not None else -1

    def in_transaction(self, header: BatchHeader) -> bool:
        """Whether the batch's producer has begun its transaction here already, in this epoch."""
        packed = self.entries.packed(header.producer_id)
        if packed is None:
            return False
        epoch, _, _, first_offset, _ = AFTER_ID.unpack_from(packed, ID_SIZE)
        return first_offset != NO_OFFSET and bool(epoch == header.producer_epoch)

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
        if header.producer_id >= 0:
            self._journal.append((header.producer_id, self._advance(header, base_offset, header.max_timestamp), base_offset))

    def record_stamped(self, header: BatchHeader, base_offset: int, log_append_time_ms: int) -> None:
        """Records a batch as `record` does, with the timestamp that the log sets."""
        if header.producer_id >= 0:
            self._journal.append((header.producer_id, self._advance(header, base_offset, log_append_time_ms), base_offset))

    def record_next(self, header: BatchHeader, base_offset: int, timestamp: int) -> bool:
        """Records a client's batch that plainly follows its producer's last one, as `check` and then `record_stamped` would,
        with one look at the producer. False: ask `check`; nothing was recorded."""
        producer_id = header.producer_id
        before = self.entries.packed(producer_id)
        if before is None or header.attributes & TRANSACTIONAL:
            return False
        known_epoch, coordinator_epoch, _, first_offset, count = AFTER_ID.unpack_from(before, ID_SIZE)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch != known_epoch or first_offset != NO_OFFSET or not count:
            return False
        if sequence != (LAST_SEQUENCE.unpack_from(before, len(before) - BATCH.size)[0] + 1) & MAX_SEQUENCE:
            return False
        if count == CACHED_BATCHES:
            count, kept = CACHED_BATCHES - 1, before[SECOND_BATCH_AT:]
        else:
            kept = before[FIRST_BATCH_AT:]
        delta = header.last_offset_delta
        head = producer_id, epoch, coordinator_epoch, timestamp, NO_OFFSET, count + 1
        batch = (sequence + delta) & MAX_SEQUENCE, base_offset + delta, delta, timestamp
        self.entries.put(producer_id, PACK_AFTER[count](*head, kept, *batch))
        self._journal.append((producer_id, before, base_offset))
        return True

    def record_marker(self, header: BatchHeader, base_offset: int, marker: Marker) -> None:
        """Records a checked marker that is about to be appended at `base_offset`."""
        before = self.entries.packed(header.producer_id)
        self._journal.append((header.producer_id, before, base_offset))
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
        for producer_id, packed, _ in reversed(self._journal):
            before = NO_OFFSET if packed is None else first_offset_of(packed)
            now = self.entries[producer_id].transaction_first_offset
            if before != now:
                if before == NO_OFFSET:
                    self.transactions.revert_begin(producer_id, now)
                else:
                    self.transactions.revert_end(producer_id, before)
            if packed is None:
                self.entries.remove(producer_id)
            else:
                self.entries.put(producer_id, packed)
        self._journal.clear()
        self._ending.clear()

    def view(self) -> PackedProducers:
        """The producers as they are now. Other threads may read the view while this state changes."""
        return self.entries.view()

    def as_of(self, end_offset: int) -> PackedProducers:
        """A view without the batches at or past `end_offset`, which are not written yet."""
        view = self.view()
        if not self._journal:
            return view
        return view.with_changes({each: packed for each, packed, offset in reversed(self._journal) if offset >= end_offset})

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
        """Forgets producers that were silent for so long, unless they have an open transaction. Returns their number. While
        `entries.is_expiring`, another turn goes on."""
        return self.entries.expire(now_ms, expiration_ms, LOOKED_AT_AT_ONCE)

    def evict(self, count_max: int, at_most: int = EVICTED_AT_ONCE) -> int:
        """Forgets producers while there are more than `count_max`, about the longest silent first, none with an open
        transaction. Returns their number, at most `at_most`. As after an expiry, such a producer may go on with any sequence; a
        batch that it repeats is appended again."""
        has_closed = self.entries.count > len(self.transactions)
        return self.entries.evict(count_max, at_most) if has_closed and not self._journal else 0

    def _advance(self, header: BatchHeader, base_offset: int, timestamp: int) -> bytes | None:
        """Returns the producer's packed entry before the batch."""
        producer_id, epoch, delta = header.producer_id, header.producer_epoch, header.last_offset_delta
        before = self.entries.packed(producer_id)
        coordinator_epoch, first_offset, count, kept = -1, NO_OFFSET, 0, b""
        if before is not None:
            known_epoch, coordinator_epoch, _, first_offset, count = AFTER_ID.unpack_from(before, ID_SIZE)
            if known_epoch != epoch:  # KIP-360: a bumped epoch starts over, and old sequences have no meaning
                count = 0
            elif count == CACHED_BATCHES:
                count, kept = CACHED_BATCHES - 1, before[SECOND_BATCH_AT:]
            else:
                kept = before[FIRST_BATCH_AT:]
        if first_offset == NO_OFFSET and header.attributes & TRANSACTIONAL:
            first_offset = base_offset
            self.transactions.begin(producer_id, first_offset)
        sequence = header.base_sequence
        last_sequence = (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else sequence
        head = producer_id, epoch, coordinator_epoch, timestamp, first_offset, count + 1
        self.entries.put(producer_id, PACK_AFTER[count](*head, kept, last_sequence, base_offset + delta, delta, timestamp))
        return before

    def _end_transaction(self, header: BatchHeader, offset: int, marker: Marker) -> EndedTransaction | None:
        """The transaction that a marker ends. None: the log has no records of it, and readers need not know of it."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        batches = entry.batches if entry is not None and entry.epoch == header.producer_epoch else ()
        self.entries[producer_id] = ProducerEntry(
            header.producer_epoch, batches, marker.coordinator_epoch, header.max_timestamp, NO_OFFSET
        )
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return None
        return self.transactions.end(producer_id, entry.transaction_first_offset, offset, aborted=marker.aborts)


def _former_epoch(header: BatchHeader, known_epoch: int) -> BatchError:
    reason = f"epoch {header.producer_epoch} of producer {header.producer_id} is below {known_epoch}"
    return BatchError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)


def _duplicate(packed: bytes, header: BatchHeader) -> Duplicate | None:
    """The batch of an entry that the header repeats."""
    fields = UNPACK[len(packed)](packed)
    delta = header.last_offset_delta
    last_sequence = (header.base_sequence + delta) & MAX_SEQUENCE
    for at in range(BATCH_FIELDS, len(fields), 4):
        if fields[at] == last_sequence and fields[at + 2] == delta:
            last_offset = fields[at + 1]
            return Duplicate(last_offset - delta, last_offset, fields[at + 3])
    return None
