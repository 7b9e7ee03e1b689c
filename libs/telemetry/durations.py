"""A histogram of durations that is cheap to fill: plain numbers, made into Prometheus samples when somebody scrapes."""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from libs.telemetry.go_numbers import go_number

LATENCY_BUCKETS = (*(base * 10**power for power in range(-5, 1) for base in (1, 2.5, 5)), 10.0)
"""Seconds, from 10 µs to 10 s."""
BATCH_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds, of what may take minutes."""


class Exemplar(NamedTuple):
    """One of the things in a bucket, which has a trace."""

    trace_id: int
    seconds: float
    at_s: float
    """Wall time."""

    def __str__(self) -> str:
        """As OpenMetrics writes it."""
        return f'{{trace_id="{self.trace_id:032x}"}} {go_number(self.seconds)} {self.at_s:.3f}'


_NONE: Final[Mapping[int, Exemplar]] = MappingProxyType({})


class Durations:
    """A histogram of seconds. An observation costs a bisection and two additions. It may stand for several durations of the same
    length.

    Where even the call costs too much, `counts[bisect_left(buckets, seconds)]` and `total_s` are increased in place.
    """

    __slots__ = ("buckets", "counts", "exemplars", "total_s")

    def __init__(self, buckets: tuple[float, ...] = LATENCY_BUCKETS) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.total_s = 0.0
        self.exemplars: Mapping[int, Exemplar] = _NONE
        """The newest one of each bucket, by the bucket's index."""

    def exemplify(self, exemplar: Exemplar) -> None:
        """Keeps an exemplar of what was observed. It costs more than an observation: not every one has a trace."""
        self.exemplars = {**self.exemplars, bisect_left(self.buckets, exemplar.seconds): exemplar}

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(self.buckets, seconds)] += times
        self.total_s += seconds * times

    def with_zeros(self, count: int) -> "Durations":
        """A copy in which all others of `count` things took no time."""
        padded = Durations(self.buckets)
        padded.counts = [*self.counts]
        padded.counts[0] += max(0, count - self.count)
        padded.total_s, padded.exemplars = self.total_s, self.exemplars
        return padded

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper edge, how many took at most that long)."""
        total = 0
        samples: list[tuple[str, float]] = []
        for edge, count in zip(_edges(self.buckets), self.counts, strict=True):
            total += count
            samples.append((edge, float(total)))
        return samples


@cache
def _edges(buckets: tuple[float, ...]) -> tuple[str, ...]:
    # As Go writes numbers: OpenMetrics asks for that, and a label must be the same in both formats.
    return (*map(go_number, buckets), "+Inf")
