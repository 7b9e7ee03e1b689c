"""The first pass: it finds the last offset of each key in the dirty part."""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.record_bytes import InvalidRecord, note_keys
from libs.commitlog.cleaner.source import Source, TooLargeToOpen
from libs.commitlog.cleaner.transactions import CleanedTransactions, UnindexedAbort
from libs.wire.record_batches.batches import CONTROL, TRANSACTIONAL
from libs.wire.record_batches.markers import read_marker

_ORDER_MATTERS = TRANSACTIONAL | CONTROL


class DirtySource(NamedTuple):
    source: Source
    base_offset: int
    end_offset: int  # the next segment's base, so that offsets of a gap before it are not looked for again


def map_keys(dirty: Sequence[DirtySource], first_dirty_offset: int, transactions: CleanedTransactions, keys: OffsetMap) -> int:
    """The first pass: it fills `keys`, and returns the offset before which they are complete. Neither aborted records nor markers
    supersede anything.

    If memory ends, that offset is the start of the segment for which it did not suffice. If that is the first segment, it is the
    first batch without room: each pass gets further by one batch at least.
    """
    end = first_dirty_offset
    for segment in dirty:
        full_at = _map_segment(segment.source, first_dirty_offset, transactions, keys)
        if full_at is not None:
            return max(end, full_at) if segment is dirty[0] else segment.base_offset
        end = segment.end_offset
    return end


def _map_segment(source: Source, first: int, transactions: CleanedTransactions, keys: OffsetMap) -> int | None:
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
            except TooLargeToOpen:
                source.goes_on()
                continue  # it supersedes nothing, and stays
            note_keys(offsets, data, start, stop, count, base_offset, delta)
    except (InvalidRecord, UnindexedAbort) as error:
        raise source.damaged(error) from error
    return None
