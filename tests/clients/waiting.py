"""Waiting for something that becomes true by itself."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PACE = threading.Event()  # never set: it only paces the questions


def eventually(question: Callable[[], T], within_s: float = 60.0) -> T:
    """Asks until the answer is truthy, and returns that answer."""
    deadline = time.monotonic() + within_s
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still {answer!r} after {within_s} s"
        _PACE.wait(0.02)
    return answer


def rounds(what: str, within_s: float = 60.0) -> Iterator[int]:
    """Rounds of a loop that waits by other means, e.g. in a client's own poll; fails, with those words, when time is over."""
    deadline = time.monotonic() + within_s
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1
    raise AssertionError(f"{what}: not within {within_s} s, {number} rounds")
