"""Which requests have a trace, and how many spans a process makes. Pure: callers give the time, and the randomness at the start.

A request has a trace if its client asked for one, if the fraction drew it, if it was slow, or if it failed.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from math import inf, log1p
from random import Random
from typing import Final

from libs.lean_dataclass import dataclass

SAMPLE_RATIO = 0.01
SLOW_MS = 100
SPANS_PER_SECOND = 200
LOOKS_PER_SECOND = 500
"""The batches a second whose first record is searched for a client's context. A look costs 2 to 3 µs."""
FAILED_PER_SECOND = 5
"""The requests a second that have a trace because they failed by an error that a client causes as often as it likes."""


class Reason(StrEnum):
    """Why a request has a trace."""

    CLIENT = "client"
    FRACTION = "fraction"
    SLOW = "slow"
    FAILED = "failed"


IN_ADVANCE: Final = frozenset((Reason.CLIENT, Reason.FRACTION))
"""Reasons that say nothing about how a request went."""


@dataclass(frozen=True, slots=True)
class TraceRules:
    """The settings of a process's traces."""

    sample_ratio: float = SAMPLE_RATIO
    """The fraction of requests that are traced whatever happens to them, from 0 to 1."""
    slow_ms: int = SLOW_MS
    """A request that takes longer has a trace."""
    slow_ms_by_api: Mapping[int, int] = field(default_factory=dict)
    """The same for single APIs, by their keys."""
    spans_per_second: int = SPANS_PER_SECOND
    """The cap for this process. 0: it makes no spans."""
    heeds_clients: bool = True
    """Whether a client's sampled flag has its request traced."""

    def slow_s(self, api_key: int) -> float:
        """Seconds. A request of that API which takes longer is slow."""
        return self.slow_ms_by_api.get(api_key, self.slow_ms) / 1000 if self.spans_per_second else inf

    @property
    def fastest_slow_s(self) -> float:
        """Seconds. No request that takes less is slow, whatever its API."""
        return min((self.slow_ms, *self.slow_ms_by_api.values())) / 1000 if self.spans_per_second else inf


class FractionSampler:
    """Draws a fraction of requests. It counts down random gaps: a request costs one subtraction, and one in many a logarithm."""

    __slots__ = ("_left", "_random", "_ratio")

    def __init__(self, ratio: float, random: Random) -> None:
        self._ratio = ratio
        self._random = random
        self._left = self._gap()

    @property
    def draws_next(self) -> bool:
        """What `draws` will return."""
        return self._left < 1

    def draws(self) -> bool:
        """Whether the next request is sampled."""
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = self._gap()
        return True

    def _gap(self) -> float:
        """The number of requests until the next sampled one: geometrically distributed."""
        if self._ratio <= 0.0:
            return inf
        if self._ratio >= 1.0:
            return 0.0
        return log1p(-self._random.random()) // log1p(-self._ratio)


class Allowance:
    """At most so many things in a second. Those it refuses are counted. To ask costs a comparison and a subtraction."""

    __slots__ = ("_left", "_per_second", "_until", "refused")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left = 0
        self._until = -inf
        self.refused = 0

    def has(self, count: int, now: float) -> bool:
        """Whether `takes` would allow so many."""
        if now >= self._until:
            self._left, self._until = self._per_second, now + 1.0
        return self._left >= count

    def takes(self, count: int, now: float) -> bool:
        """Whether `count` more are allowed now. All of them are taken, or none."""
        if not self.has(count, now):
            self.refused += count
            return False
        self._left -= count
        return True
