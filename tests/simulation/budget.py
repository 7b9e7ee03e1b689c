"""Seeds within a time budget: a slow machine runs fewer of them, and no run is cut short."""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

SEEDS_MIN, SHARE_MIN = 4, 0.1
"""A run that is bounded in time must reach so many seeds, and this share of those it was asked for."""

AHEAD = 2
"""Jobs a worker that are handed out before their results are taken: no worker waits, and few are left when time is up."""


def too_few(count: int, most: int) -> str:
    """The complaint about a run that reached `count` of `most` seeds. "": it reached enough to prove something."""
    least = min(most, max(SEEDS_MIN, math.ceil(SHARE_MIN * most)))
    return f"TOO FEW: {count} of {most} seeds in time, and at least {least} must run" if count < least or not count else ""


def in_time(pool: Executor, run: Callable[[T], R], jobs: Iterable[T], seconds: float | None) -> Iterator[R]:
    """The results of `run`, in the order of the jobs. After `seconds` no further job begins; None: all of them do."""
    started, waiting = time.monotonic(), deque[Future[R]]()
    for job in jobs:
        if seconds is not None and time.monotonic() - started >= seconds:
            break
        waiting.append(pool.submit(run, job))
        if len(waiting) >= AHEAD * (os.cpu_count() or 1):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
