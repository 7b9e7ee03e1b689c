"""A histogram of durations that is cheap to fill: plain numbers, made into Prometheus samples when somebody scrapes."""

from bisect import bisect_left
from functools import cache

LATENCY_BUCKETS = (*(base * 10**power for power in range(-5, 1) for base in (1, 2.5, 5)), 10.0)
"""Seconds, from 10 µs to 10 s."""
BATCH_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds, of what may take minutes."""


class Durations:
    """A histogram of seconds. An observation costs a bisection and two additions. It may stand for several durations of the same
    length."""

    __slots__ = ("_buckets", "_counts", "total_s")

    def __init__(self, buckets: tuple[float, ...] = LATENCY_BUCKETS) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(self._buckets, seconds)] += times
        self.total_s += seconds * times

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper edge, how many took at most that long)."""
        total = 0
        samples: list[tuple[str, float]] = []
        for edge, count in zip(_edges(self._buckets), self._counts, strict=True):
            total += count
            samples.append((edge, float(total)))
        return samples


@cache
def _edges(buckets: tuple[float, ...]) -> tuple[str, ...]:
    return (*(f"{edge:g}" for edge in buckets), "+Inf")
