"""The longest times without an acknowledgement, for a producer that sends all the time."""

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.history.model import Key, Op, sends

NS_PER_MS = 1_000_000


def acknowledgements(ops: Iterable[Op]) -> dict[tuple[int, Key], list[int]]:
    """The times of acknowledgements by process and partition, in nanoseconds."""
    times: dict[tuple[int, Key], list[int]] = {}
    for op in ops:
        if op.f == "send" and op.type == "ok":
            for send in sends(op.value):
                times.setdefault((op.process, send.key), []).append(op.time_ns)
    return times


def longest_gap_ms(times: Sequence[int], begin_ns: int, end_ns: int) -> float:
    """Between two acknowledgements of which one at least came in this time; it is still open if none came after it."""
    inside = [max(0, later - earlier) for earlier, later in pairwise(times) if later >= begin_ns and earlier <= end_ns]
    return max(inside, default=end_ns - begin_ns) / NS_PER_MS


def summary(gaps_ms: Iterable[float]) -> dict[str, float]:
    ordered = sorted(gaps_ms)
    return {"n": len(ordered), "p50": round(statistics.median(ordered), 1), "max": round(ordered[-1], 1)}
