"""The first pass: over what is dirty, for the last offset of each key."""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.record_bytes import NonsenseRecord, note_keys
from libs.commitlog.cleaner.source import Source
from libs.commitlog.cleaner.transactions import CleanedTransactions, UnnamedAbort
from libs.wire.batches import CONTROL, TRANSACTIONAL
from libs.wire.markers import read_marker

_ORDER_MATTERS = TRANSACTIONAL | CONTROL


class DirtySource(NamedTuple):
    source: Source
    base_offset: int
    end_offset: int  # the next segment's base: no offset of a gap before it is looked for ever again


def map_keys(dirty: Sequence[DirtySource], first_dirty_offset: int, transactions: CleanedTransactions, keys: OffsetMap) -> int:
    """Fills `keys`; returns the offset before which they hold. Neither what was aborted nor a marker supersedes anything.

    If memory ends, that is where the segment begins for which it did not suffice; or, if that is the first, the first batch
    that found no room: each round gets further, by one batch at least.
    """
    end = first_dirty_offset
    for segment in dirty:
        full_at = _map_segment(segment.source, first_dirty_offset, transactions, keys)
        if full_at is not None:
            return max(end, full_at) if segment is dirty[0] else segment.base_offset
        end = segment.end_offset
    return end


def _map_segment(source: Source, first: int, transactions: CleanedTransactions, keys: OffsetMap) -> int | None:
    """None, or the batch for which no room was left."""
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
            data, start, stop = batch.records()
            note_keys(offsets, data, start, stop, count, base_offset, delta)
    except (NonsenseRecord, UnnamedAbort) as error:
        raise source.damaged(error) from error
    return None
