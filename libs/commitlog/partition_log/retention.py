"""Which segments of a log have had their time: a pure decision over facts (kafka-facts section 7).

The oldest go first, and only as an unbroken row from the start of the log. What lies at or past the high watermark stays, so the
log's start can never pass it. Wall time is only compared: a clock that jumps back makes everything young, and nothing goes.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple


class Reason(Enum):
    """Why a segment goes, in the order in which it is asked."""

    BEFORE_START = "before the log's start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentFacts(NamedTuple):
    """A segment as retention sees it. `end_offset`: the next one's base, or the log's end."""

    base_offset: int
    end_offset: int
    size: int


class RetentionPolicy(NamedTuple):
    """A topic's `retention.*`; -1 is no limit. Without `delete` in its cleanup.policy only what lies before the start goes."""

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
    """A reason for each segment that goes, the oldest first.

    `latest_ms(i)` is the greatest timestamp in segment i, or when its file was last written if it holds none; it costs a look
    into an index, and is asked of no segment behind the first that stays. The last segment, if it is empty, always stays; if all
    go, the caller rolls first.
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
