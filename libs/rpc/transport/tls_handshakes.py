"""The threads in which TLS handshakes compute, and the order in which connections get one.

A signature takes a core for up to a millisecond. On the event loop, thousands of clients that come back together would stop
everybody else. A step ends where it would wait for the network, so a slow client holds no thread. Hosts take turns: one that
opens connections again and again delays itself. The steps that wait are no more than the open connections.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 2
SUBMITTED_MAX: Final = 2 * THREADS
"""The steps that threads compute, or take next without asking the event loop."""

BEGUN_IN_A_ROW: Final = 8
"""The steps of handshakes that have begun which may pass before one of a new handshake, if any waits."""
LOOKS_A_TURN: Final = 100
"""The most steps that one turn of the event loop drops."""

Outcome = Exception | None
"""None: the handshake is complete."""


class Step:
    """One step of a handshake that waits for a thread, or is in one."""

    __slots__ = ("compute", "host", "is_gone", "is_withdrawn", "on_computed")

    def __init__(
        self, compute: Callable[[], None], on_computed: Callable[[Outcome], None], host: str, is_gone: Callable[[], bool]
    ) -> None:
        """`is_gone`: whether the other end has hung up meanwhile, so that nothing is computed for it."""
        self.compute = compute
        self.on_computed = on_computed
        self.host = host
        self.is_gone = is_gone
        self.is_withdrawn = False


class _Waiting:
    """Steps by their hosts, which take turns."""

    def __init__(self) -> None:
        self._by_host: OrderedDict[str, deque[Step]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_host)

    def add(self, step: Step) -> None:
        self._by_host.setdefault(step.host, deque()).append(step)

    def pop(self) -> Step:
        host, steps = self._by_host.popitem(last=False)
        step = steps.popleft()
        if steps:
            self._by_host[host] = steps
        return step


class Handshakes:
    """The handshakes of all listeners of a process. Those that have begun come before new ones, so that some are complete while
    others wait. Call `close` at the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "tls-handshakes")
        self._begun, self._new = _Waiting(), _Waiting()
        self._begun_in_a_row = 0
        self._submitted = 0

    def add(self, step: Step, *, is_new: bool) -> None:
        """`on_computed` is called by the event loop later, unless the step is withdrawn."""
        (self._new if is_new else self._begun).add(step)
        self._submit()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        for _ in range(LOOKS_A_TURN):
            if self._submitted == SUBMITTED_MAX or not (self._begun or self._new):
                return
            step = self._next()
            if step.is_withdrawn:
                continue
            step.is_withdrawn = True  # it is too late for that from now on
            if step.is_gone():
                self._loop.call_soon(step.on_computed, ConnectionResetError())
                continue
            self._submitted += 1
            self._threads.submit(self._compute, step)
        if not self._submitted:
            self._loop.call_soon(self._submit)  # otherwise a thread's end does

    def _next(self) -> Step:
        if self._begun and not (self._new and self._begun_in_a_row == BEGUN_IN_A_ROW):
            self._begun_in_a_row += self._begun_in_a_row < BEGUN_IN_A_ROW
            return self._begun.pop()
        self._begun_in_a_row = 0
        return self._new.pop()

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
            outcome = error.with_traceback(None)  # which would hold this frame, and so the step, in a cycle
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._computed, step, outcome)

    def _computed(self, step: Step, outcome: Outcome) -> None:
        self._submitted -= 1
        step.on_computed(outcome)
        self._submit()
