"""The plan of a cleaning: whether a log is worth it, the offsets, and the segments that become one. Pure.

Follows Kafka 4.2's LogCleanerManager, so that the same topic is cleaned at the same times.
"""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.lean_dataclass import dataclass


class SealedSegment(NamedTuple):
    """A sealed segment, as planning sees it."""

    base_offset: int
    next_offset: int
    size: int  # bytes of its .log
    latest_ms: int  # its greatest timestamp, or the time of the file's last write if it has none (`Segment.latest_ms`)
    first_timestamp: int  # that of the first batch (`Segment.first_timestamp`); -1 if it has none


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """The topic's configs with these names."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class CleanPlan:
    worthwhile: bool
    """Whether to clean now: the log is dirty enough, or a record has waited for longer than max.compaction.lag.ms."""
    ratio: float
    """The share of cleanable bytes in clean and cleanable ones, 0 to 1. Of several logs, the one with the greatest ratio is
    cleaned first."""
    overdue_ms: int
    """The time by which max.compaction.lag.ms is exceeded; 0 if it is not."""
    first_dirty_offset: int
    end_offset: int
    """The base of the first segment that may not be cleaned."""
    sources: tuple[SealedSegment, ...]
    """The segments from the log's start to `end_offset`, for a CleanJob."""
    cleanable_bytes: int
    checkpoint_is_false: bool
    """Whether the checkpoint lies before the log's start or after its end. Write `first_dirty_offset` in its place."""


def plan(
    segments: Sequence[SealedSegment],
    config: CompactionConfig,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    stable_offset: int,
    active_base_offset: int,
    now_ms: int,
) -> CleanPlan:
    """What to clean of one log, if anything.

        facts = [SealedSegment(s.base_offset, s.next_offset, s.size, s.latest_ms, s.first_timestamp) for s in log.segments[:-1]]
        it = plan(facts, config, checkpoint=checkpoints.get(name), log_start_offset=log.log_start_offset,
                  log_end_offset=log.log_end_offset, stable_offset=min(high_watermark, last_stable_offset),
                  active_base_offset=log.active.base_offset, now_ms=now)
        if it.worthwhile:
            CleanJob(segments=tuple(SourceSegment(s.base_offset, s.next_offset, s.size) for s in it.sources),
                     first_dirty_offset=it.first_dirty_offset, end_offset=it.end_offset, ...)

    `segments`: all sealed ones, in order. `checkpoint`: what cleaner-offset-checkpoint says; None: never cleaned.
    `active_base_offset`: nothing from there on is touched, so whoever must spare more gives the base of that.
    """
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    checkpoint_is_false = not log_start_offset <= first_dirty <= log_end_offset
    if checkpoint_is_false:
        first_dirty = log_start_offset
    dirty = [s for s in segments if s.next_offset > first_dirty and s.base_offset < active_base_offset]
    uncleanable = min(stable_offset, active_base_offset)
    if config.min_compaction_lag_ms > 0:
        young_ms = now_ms - config.min_compaction_lag_ms
        uncleanable = min([uncleanable, *(s.base_offset for s in dirty if s.latest_ms > young_ms)])
    end = max(first_dirty, uncleanable)
    # Only whole segments: the one that holds `end` stays out.
    sources = tuple(s for s in segments if s.next_offset <= min(end, active_base_offset))
    cleanable = [s for s in sources if s.next_offset > first_dirty]
    cleanable_bytes = sum(s.size for s in cleanable)
    # As in Kafka, a segment that a full map left half done counts as clean and as dirty.
    clean_bytes = sum(s.size for s in sources if s.base_offset < first_dirty)
    ratio = cleanable_bytes / (clean_bytes + cleanable_bytes) if cleanable_bytes else 0.0
    overdue_ms = _overdue_ms(dirty, config, now_ms)
    return CleanPlan(
        worthwhile=cleanable_bytes > 0 and (overdue_ms > 0 or ratio > config.min_cleanable_dirty_ratio),
        ratio=ratio,
        overdue_ms=overdue_ms,
        first_dirty_offset=first_dirty,
        end_offset=min(end, segments[len(sources)].base_offset if len(sources) < len(segments) else active_base_offset),
        sources=sources,
        cleanable_bytes=cleanable_bytes,
        checkpoint_is_false=checkpoint_is_false,
    )


def _overdue_ms(dirty: Sequence[SealedSegment], config: CompactionConfig, now_ms: int) -> int:
    first_ms = min((s.first_timestamp for s in dirty if s.first_timestamp > 0), default=now_ms)
    return max(0, now_ms - max(config.max_compaction_lag_ms, 0) - first_ms)


class SourceSizes(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    index_size: int
    time_index_size: int


def group(sources: Sequence[SourceSizes], segment_bytes: int, index_bytes: int) -> list[list[SourceSizes]]:
    """Groups of adjacent segments that fit into one even if no record is dropped. A source that is too large already is a group
    of its own."""
    groups: list[list[SourceSizes]] = []
    size = index_size = time_index_size = 0
    for source in sources:
        size += source.size
        index_size += source.index_size
        time_index_size += source.time_index_size
        if (
            groups
            and size <= segment_bytes
            and index_size <= index_bytes
            and time_index_size <= index_bytes
            # An empty source adds no offset. Without this, one of them would stay every 2^31 offsets.
            and (source.size == 0 or source.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(source)
        else:
            groups.append([source])
            _, _, size, index_size, time_index_size = source
    return groups
