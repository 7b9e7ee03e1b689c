"""What a cleaner is told and what it answers: plain values, which travel to a child process and back.

The cleaner reads sealed segments and writes new files beside them; it renames and removes none of the old ones.
"""

from dataclasses import dataclass
from typing import NamedTuple

from libs.commitlog.transaction_index import AbortedTransaction


class SourceSegment(NamedTuple):
    base_offset: int
    next_offset: int
    size: int  # bytes of its .log


class ProducerEnd(NamedTuple):
    """What must stay in the log of a producer that is still known, so that its state can be rebuilt from the log."""

    last_data_offset: int  # of the last record of its last data batch; -1 if its last entry is a marker
    epoch: int


@dataclass(frozen=True, slots=True)
class CleanJob:
    directory: str
    """The partition's."""
    segments: tuple[SourceSegment, ...]
    """All from the log's start to `end_offset`, sealed and synced, in order."""
    log_start_offset: int
    first_dirty_offset: int
    """Before it, each key occurs once already, as far as an earlier pass came."""
    end_offset: int
    """The base of the first segment that may not be cleaned: at most the last stable offset, at most the active segment's."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    map_bytes: int
    """Memory for the map of keys; if it fills, the pass ends where it is full, and the rest is the next pass's."""
    bytes_per_second: float
    """Read and written together; 0 is no limit."""
    producers: dict[int, ProducerEnd]
    aborted: tuple[AbortedTransaction, ...] = ()
    """All of which some batch may lie in the segments, those too whose marker lies behind them. The log knows them; on disk the
    active segment's index is written late and may tell of what was cut."""


class CleanedSegment(NamedTuple):
    """One output. Its files end in `.cleaned` and are on disk; `sources` are the bases of the segments that it replaces."""

    base_offset: int
    sources: tuple[int, ...]
    size: int
    modified_ms: int  # the last source's, which the output's files bear too


@dataclass(frozen=True, slots=True)
class CleanResult:
    segments: tuple[CleanedSegment, ...]
    """In order; together they replace a row of sources from the first one on."""
    end_offset: int
    """Where the map ended: the next pass's `first_dirty_offset`."""
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    keys: int
    seconds: float
