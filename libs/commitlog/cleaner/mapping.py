"""The first pass: it finds the last offset of each key in the dirty part."""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.record_bytes import InvalidRecord, note_keys
from libs.commitlog.cleaner.source import Source, TooLargeToOpen
from libs.commitlog.cleaner.transactions import CleanedTransactions, UnindexedAbort
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.wire.record_batches.batches import CONTROL, TRANSACTIONAL
from libs.wire.record_batches.markers import read_marker

_ORDER_MATTERS = TRANSACTIONAL | CONTROL


class DirtySource(NamedTuple):
    source: Source
    base_offset: int
    end_offset: int  # the next segment's base, so that offsets of a gap before it are not looked for again


class _PartlyNoted(Exception):
    """A batch with bytes that are no records, behind some whose keys are in the map already."""


def map_keys(
    dirty: Sequence[DirtySource], first_dirty_offset: int, aborted: Sequence[AbortedTransaction], keys: OffsetMap
) -> int:
    """The first pass: it fills `keys`, and returns the offset before which they are complete. Neither aborted records nor markers
    supersede anything, nor does a batch that cannot be opened, which stays.

    If memory ends, that offset is the start of the segment for which it did not suffice. If that is the first segment, it is the
    first batch without room: each pass gets further by one batch at least.
    """
    try:
        return _map_all(dirty, first_dirty_offset, CleanedTransactions(aborted), keys, batch_by_batch=False)
    except _PartlyNoted:
        keys.clear()
        return _map_all(dirty, first_dirty_offset, CleanedTransactions(aborted), keys, batch_by_batch=True)


def _map_all(
    dirty: Sequence[DirtySource],
    first_dirty_offset: int,
    transactions: CleanedTransactions,
    keys: OffsetMap,
    *,
    batch_by_batch: bool,
) -> int:
    """`batch_by_batch`: the keys of a batch are added only when all of it was read, which takes longer. Else it raises
    _PartlyNoted."""
    end = first_dirty_offset
    for segment in dirty:
        full_at = _map_segment(segment.source, first_dirty_offset, transactions, keys, batch_by_batch=batch_by_batch)
        if full_at is not None:
            return max(end, full_at) if segment is dirty[0] else segment.base_offset
        end = segment.end_offset
    return end


def _map_segment(
    source: Source, first: int, transactions: CleanedTransactions, keys: OffsetMap, *, batch_by_batch: bool
) -> int | None:
    """Maps a segment. Returns None, or the batch for which no room was left."""
    offsets = keys.offsets
    try:
        for batch in source.batches():
            header = batch.header
            base_offset, _, _, _, _, attributes, delta, _, _, _, _, _, count = header
            if attributes & _ORDER_MATTERS:
                if attributes & CONTROL:
                    marker = read_marker(batch.view[batch.start : batch.stop]) if count else None
                    if marker is not None:
                        transactions.end(header, marker)
                    continue
                if transactions.aborts(header):
                    continue
            if base_offset + delta < first:
                continue
            if offsets and not keys.has_room(count):
                return base_offset
            try:
                data, start, stop = batch.records()
            except (TooLargeToOpen, InvalidRecord):
                source.goes_on()
                continue
            noted = {} if batch_by_batch else offsets
            try:
                note_keys(noted, data, start, stop, count, base_offset, delta)
            except InvalidRecord as error:
                if not batch_by_batch:
                    raise _PartlyNoted from error
                source.goes_on()
                continue
            if batch_by_batch:
                offsets.update(noted)
    except UnindexedAbort as error:
        raise source.damaged(error) from error
    return None
