"""The order in which handshakes compute."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from libs.rpc.transport.tls_handshakes import BEGUN_IN_A_ROW, LOOKS_A_TURN, SUBMITTED_MAX, THREADS, Handshakes, Outcome, Step
from tests.support.polling import until


class Queue:
    """Handshakes whose threads are busy until `release`. It notes what they compute."""

    def __init__(self) -> None:
        self.handshakes = Handshakes()
        self.computed: list[str] = []
        self.outcomes: list[Outcome] = []
        self.release = threading.Event()
        for _ in range(SUBMITTED_MAX):
            self.handshakes.add(Step(self._wait, self.outcomes.append, "busy", lambda: False), is_new=True)

    def _wait(self) -> None:
        self.release.wait()

    def add(self, host: str, *, is_new: bool = True, is_gone: Callable[[], bool] = lambda: False) -> None:
        step = Step(lambda: self.computed.append(host), self.outcomes.append, host, is_gone)
        self.handshakes.add(step, is_new=is_new)

    async def all_computed(self, steps: int) -> None:
        self.release.set()
        await until(lambda: len(self.outcomes) == SUBMITTED_MAX + steps)


@asynccontextmanager
async def busy() -> AsyncIterator[Queue]:
    queue = Queue()
    try:
        yield queue
    finally:
        queue.release.set()
        queue.handshakes.close()


async def test_a_host_with_many_handshakes_does_not_delay_another() -> None:
    async with busy() as queue:
        for _ in range(50):
            queue.add("many")
        queue.add("one")
        await queue.all_computed(51)
        assert queue.computed.index("one") <= 1 + THREADS


async def test_handshakes_that_have_begun_come_first_and_let_new_ones_pass_now_and_then() -> None:
    async with busy() as queue:
        for _ in range(30):
            queue.add("new")
        for _ in range(30):
            queue.add("begun", is_new=False)
        await queue.all_computed(60)
        assert queue.computed.index("begun") <= THREADS
        assert BEGUN_IN_A_ROW - THREADS <= queue.computed.index("new") <= BEGUN_IN_A_ROW + THREADS


async def test_nothing_is_computed_for_clients_that_have_hung_up() -> None:
    async with busy() as queue:
        gone = 2 * LOOKS_A_TURN + 1
        for _ in range(gone):
            queue.add("gone", is_gone=lambda: True)
        queue.add("there")
        await queue.all_computed(gone + 1)
        assert queue.computed == ["there"]
        assert sum(isinstance(outcome, ConnectionResetError) for outcome in queue.outcomes) == gone
