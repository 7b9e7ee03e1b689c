"""How many bytes clients moved, over time, beside what a quota allows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.polling import rounds

UNCOUNTED_S = 0.7
"""What the promise allows beside the rate, in seconds of it: a burst, and the slices of two gateways."""
TOLERATED = 1.05


@dataclass
class Progress:
    """The bytes that one entity has moved, at times of one clock."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def note(self, moved: int) -> None:
        self.samples.append((time.monotonic(), moved))

    def while_limited(self, total: int) -> tuple[float, int]:
        """The seconds from the first bytes until the last sample before all were through, and the bytes of that time."""
        within = [(at, moved) for at, moved in self.samples if 0 < moved < total]
        (since, first), (until, last) = within[0], within[-1]
        return until - since, last - first

    def faults(self, rate: float, total: int, *, used_at_least: float, received: float) -> str:
        """What is wrong with these bytes, under a quota of `rate`; empty: nothing. `received`: bytes of requests that had
        arrived already when the debt began."""
        seconds, moved = self.while_limited(total)
        most = rate * (TOLERATED * seconds + UNCOUNTED_S) + received
        least = rate * seconds * used_at_least
        return "" if least <= moved <= most else f"{moved} bytes within {seconds:.2f} s are not {least:.0f} to {most:.0f}"


def moved_within(seconds: float, stored: Callable[[], int]) -> tuple[float, int]:
    """The bytes of so many seconds from now on, and how long they took exactly."""
    since, before = time.monotonic(), stored()
    for _ in rounds(f"{seconds} s", 60 + seconds):
        moved, elapsed = stored() - before, time.monotonic() - since
        if elapsed >= seconds:
            return elapsed, moved
    raise AssertionError("unreachable: rounds() ends by raising")
