"""Polling: wait until a condition holds that nothing announces, and fail with what was last seen when its deadline passes.

`eventually` blocks, `until` awaits, `rounds` bounds a loop that waits by other means.
"""

import asyncio
import inspect
import reprlib
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Pending:
    """A condition that does not hold yet. A failure shows what it waits for."""

    def __init__(self, seen: object) -> None:
        self._seen = seen

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"waiting for {self._seen}"


WITHIN_S = 120.0  # far beyond what a machine takes whose cores are shared by four others
PAUSE_S = 0.02  # between two calls of `eventually`, whose conditions mostly ask other processes
ASYNC_PAUSE_S = 0.002  # between two calls of `until`, whose conditions look at objects of this process
ASYNC_PAUSE_S_MAX = 0.02
WAIT_SHARE = 0.02
"""How much of the time it has waited `until` pauses: minutes of virtual time take thousands of calls so, not 100,000s."""

_pause = threading.Event()  # never set; `time.sleep` may be patched by a test
_values = reprlib.Repr()
_values.maxother = _values.maxstring = 300
_values.maxlist = _values.maxdict = _values.maxset = _values.maxtuple = 20


def eventually(condition: Callable[[], T], within_s: float = WITHIN_S, *, pause_s: float = PAUSE_S) -> T:
    """The first truthy answer of `condition`. `pause_s`: longer where asking is dear, and the answer rarely changes."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, last_seen(condition, answer, within_s)
        _pause.wait(pause_s)
    return answer


async def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """`eventually` for coroutines. The condition may be a coroutine function; the deadline ends a call that hangs, too."""
    answer: object = "none: its first call did not end"
    deadline = asyncio.timeout(within_s)
    clock = asyncio.get_running_loop().time
    began_s = clock()
    try:
        async with deadline:
            while True:
                answer = condition()
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer:
                    return
                await asyncio.sleep(min(max(ASYNC_PAUSE_S, WAIT_SHARE * (clock() - began_s)), ASYNC_PAUSE_S_MAX))
    except TimeoutError:
        if not deadline.expired():  # the condition's own
            raise
        raise AssertionError(last_seen(condition, answer, within_s)) from None


def rounds(purpose: str, within_s: float = WITHIN_S, *, pause_s: float = 0.0) -> Iterator[int]:
    """Numbered rounds of a loop that waits by other means, e.g. in a client's own poll; they end by failing for `purpose`.
    `pause_s`: between two rounds of a loop that does not wait."""
    deadline = time.monotonic() + within_s
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1
        if pause_s:
            _pause.wait(pause_s)
    raise AssertionError(f"{purpose}: not within {within_s} s, {number} rounds")


def last_seen(condition: Callable[[], object], answer: object, within_s: float) -> str:
    """The failure's text: the condition as it is written, its last answer, and the values that it looks at."""
    try:
        text = textwrap.dedent(inspect.getsource(condition)).strip()
    except (OSError, TypeError):
        text = repr(condition)
    try:
        values = inspect.getclosurevars(condition).nonlocals
    except TypeError:
        values = {}
    seen = "".join(f"\n  {name} = {_values.repr(value)}" for name, value in sorted(values.items()))
    return f"not within {within_s} s: {text}\n  last answer: {_values.repr(answer)}{seen}"
