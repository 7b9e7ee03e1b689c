"""A cleaner's job and its result: plain values, which travel to a child process and back.

The cleaner reads sealed segments and writes new files beside them; it renames and removes none of the old ones.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from libs.commitlog.producers.producer_entries import rows_of
from libs.commitlog.producers.producer_table import PackedProducers
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.lean_dataclass import dataclass


class SourceSegment(NamedTuple):
    base_offset: int
    next_offset: int
    size: int  # bytes of its .log


class ProducerEnd(NamedTuple):
    """The end of a producer that is still known. It must stay in the log, so that the producer's state can be rebuilt from it."""

    last_data_offset: int  # of the last record in its last data batch; -1 if its last entry is a marker
    epoch: int


class ProducerEnds(Mapping[int, ProducerEnd]):
    """The ends of all known producers, as rows of bytes on their way to the child, which unpacks them."""

    def __init__(self, rows: bytes) -> None:
        self._rows = rows
        self._ends: dict[int, ProducerEnd] | None = None

    @classmethod
    def of(cls, producers: PackedProducers) -> "ProducerEnds":
        """The ends of the producers in a view. Call it in a thread: it takes 0.2 µs for each."""
        return cls(b"".join([rows for entries in producers.slices() for rows in rows_of(entries, _columns)]))

    def __getitem__(self, producer_id: int) -> ProducerEnd:
        return self._unpacked()[producer_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._unpacked())

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def _unpacked(self) -> dict[int, ProducerEnd]:
        if self._ends is None:
            self._ends = {each: ProducerEnd(offset, epoch) for each, epoch, offset in _ROW.iter_unpack(self._rows)}
        return self._ends


_ROW = struct.Struct(">qhq")


def _columns(last: int) -> tuple[int, ...]:
    """Where a packed entry has its id and epoch, and the last offset of its last batch."""
    return (*range(10), *range(last + 4, last + 12))


@dataclass(frozen=True, slots=True)
class CleanJob:
    directory: str
    """The directory of the partition."""
    segments: tuple[SourceSegment, ...]
    """All segments from the log's start to `end_offset`, sealed and synced, in order."""
    log_start_offset: int
    first_dirty_offset: int
    """The offset before which each key occurs once already, as far as an earlier pass came."""
    end_offset: int
    """The base of the first segment that may not be cleaned: at most the last stable offset, at most the active segment's."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    map_bytes: int
    """Memory for the map of keys. If the map fills up, the pass ends there, and the next pass continues."""
    bytes_per_second: float
    """The bound of bytes that are read and written, together; 0 is no limit."""
    producers: Mapping[int, ProducerEnd]
    aborted: tuple[AbortedTransaction, ...] = ()
    """All aborted transactions that may have a batch in the segments, even if their marker lies behind them. They come from the
    log, since the active segment's index on disk is written late, and may name transactions that were cut."""


class CleanedSegment(NamedTuple):
    """One output. Its files end in `.cleaned` and are on disk. `sources` are the bases of the segments that it replaces."""

    base_offset: int
    sources: tuple[int, ...]
    size: int
    modified_ms: int  # that of the last source, which the output's files get too


@dataclass(frozen=True, slots=True)
class CleanResult:
    segments: tuple[CleanedSegment, ...]
    """The outputs in order. Together they replace consecutive sources from the first one on."""
    end_offset: int
    """The end of the map, which is the next pass's `first_dirty_offset`."""
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    keys: int
    seconds: float
    waited_seconds: float
    """The part of `seconds` in which it waited for the limit of bytes."""
    unopened: int = 0
    """Batches that hold more than `DECOMPRESSED_BYTES_MAX`, or bytes that are no records. They stay as they are, and so do
    tombstones behind them."""
    first_unopened: int = -1
    """The base offset of the first of these."""
    why_unopened: str = ""
    """What kept the first of these from being opened."""
