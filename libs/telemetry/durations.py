"""A histogram of durations that is cheap to fill: plain numbers, made into Prometheus samples when somebody scrapes."""

from bisect import bisect_left

LATENCY_BUCKETS = (*(base * 10**power for power in range(-5, 1) for base in (1, 2.5, 5)), 10.0)
"""Seconds, from 10 µs to 10 s."""
_EDGES = (*(f"{edge:g}" for edge in LATENCY_BUCKETS), "+Inf")


class Durations:
    """A histogram of seconds. An observation costs a bisection and two additions. It may stand for several durations of the same
    length."""

    __slots__ = ("_counts", "total_s")

    def __init__(self) -> None:
        self._counts = [0] * len(_EDGES)
        self.total_s = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(LATENCY_BUCKETS, seconds)] += times
        self.total_s += seconds * times

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper edge, how many took at most that long)."""
        total = 0
        samples: list[tuple[str, float]] = []
        for edge, count in zip(_EDGES, self._counts, strict=True):
            total += count
            samples.append((edge, float(total)))
        return samples
