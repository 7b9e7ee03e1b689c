"""The threads in which TLS handshakes compute, and the order in which connections get one.

A signature takes a core for up to a millisecond. On the event loop, thousands of clients that come back together would stop
everybody else. A step ends where it would wait for the network, so a slow client holds no thread.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 2
SUBMITTED_MAX: Final = 2 * THREADS
"""The steps that threads compute, or take next without asking the event loop."""

Outcome = Exception | None
"""None: the handshake is complete."""


class Step:
    """One step of a handshake that waits for a thread, or is in one."""

    __slots__ = ("compute", "is_withdrawn", "on_computed")

    def __init__(self, compute: Callable[[], None], on_computed: Callable[[Outcome], None]) -> None:
        self.compute = compute
        self.on_computed = on_computed
        self.is_withdrawn = False


class Handshakes:
    """The handshakes of all listeners of a process. Those that have begun come before new ones, so that some are complete while
    others wait. Call `close` at the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "tls-handshakes")
        self._begun: deque[Step] = deque()
        self._new: deque[Step] = deque()
        self._submitted = 0

    def add(self, step: Step, *, is_new: bool) -> None:
        """`on_computed` is called by the event loop later, unless the step is withdrawn."""
        (self._new if is_new else self._begun).append(step)
        self._submit()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        while self._submitted < SUBMITTED_MAX and (waiting := self._begun or self._new):
            step = waiting.popleft()
            if not step.is_withdrawn:
                step.is_withdrawn = True  # it is too late for that from now on
                self._submitted += 1
                self._threads.submit(self._compute, step)

    def withdraw(self, step: Step) -> bool:
        """False: a thread has it, or will at once."""
        if step.is_withdrawn:
            return False
        step.is_withdrawn = True
        return True

    def _compute(self, step: Step) -> None:
        outcome: Outcome = None
        try:
            step.compute()
        except Exception as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._computed, step, outcome)

    def _computed(self, step: Step, outcome: Outcome) -> None:
        self._submitted -= 1
        step.on_computed(outcome)
        self._submit()
