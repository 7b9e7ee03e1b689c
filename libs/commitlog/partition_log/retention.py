"""Retention as a pure decision about segments that are too old or too many.

The oldest segments go first, and only without gaps from the start of the log. Records at or past the high watermark stay, so the
log's start can never pass it. Wall time is only compared: a clock that jumps back makes all segments young, and none is deleted.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple


class Reason(Enum):
    """The reason for which a segment is deleted, in the order in which reasons are checked."""

    BEFORE_START = "before the log's start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentFacts(NamedTuple):
    """A segment as retention sees it. `end_offset`: the next one's base, or the log's end."""

    base_offset: int
    end_offset: int
    size: int


class RetentionPolicy(NamedTuple):
    """A topic's `retention.*`; -1 is no limit. Without `delete` in cleanup.policy, only segments before the log's start are
    deleted."""

    retention_ms: int
    retention_bytes: int
    delete: bool = True


def decide_retention(
    segments: Sequence[SegmentFacts],
    latest_ms: Callable[[int], int],
    policy: RetentionPolicy,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[Reason]:
    """A reason for each segment that is deleted, the oldest first.

    `latest_ms(i)` is the greatest timestamp in segment i, or the time of the file's last write if it has none. It costs an index
    lookup, and no segment behind the first that stays is looked at. The last segment always stays if it is empty. If all are
    deleted, the caller rolls first.
    """
    reasons: list[Reason] = []

    def take_while(goes: Callable[[int, SegmentFacts], bool], reason: Reason) -> None:
        for index in range(len(reasons), len(segments)):
            segment = segments[index]
            if (index == len(segments) - 1 and segment.size == 0) or segment.end_offset > high_watermark:
                return
            if not goes(index, segment):
                return
            reasons.append(reason)

    last = len(segments) - 1
    take_while(lambda index, segment: index < last and segment.end_offset <= log_start_offset, Reason.BEFORE_START)
    if not policy.delete:
        return reasons
    if policy.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[len(reasons) :]) - policy.retention_bytes

        def is_excess(_: int, segment: SegmentFacts) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        take_while(is_excess, Reason.SIZE)
    if policy.retention_ms >= 0:
        take_while(lambda index, _: now_ms - latest_ms(index) > policy.retention_ms, Reason.TIME)
    return reasons
