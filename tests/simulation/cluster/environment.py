"""The environment of one simulated host's processes: a clock of its own, work off the loop after a drawn delay, a disk."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

from libs.clock import Monotonic, WallMs
from libs.runtime.children import Report, Work
from services.storage.threads.offload import Offload
from tests.simulation.cluster.loop import LIFE, VirtualLoop

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

EPOCH_MS = 1_750_000_000_000


class HostClock:
    """The wall clock may be off and may jump; the monotonic one is the loop's."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop = loop
        self.off_ms = random.randrange(-200, 200)
        self.ahead_ms = 0
        """Set while a process runs, and set right before the next one starts: that one would believe it."""

    def wall_ms(self) -> WallMs:
        return WallMs(self.wall_ns() // 1_000_000)

    def wall_ns(self) -> int:
        return (EPOCH_MS + self.off_ms + self.ahead_ms) * 1_000_000 + int(self._loop.time() * 1e9)

    def monotonic(self) -> Monotonic:
        return Monotonic(self._loop.time())


class Slowness:
    """The time that blocking work takes on a host, from now on."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.factor = 1.0
        self.threads_now = 0
        """Above 0 while what runs is work of a thread or a child process, and not of the event loop."""

    def seconds(self) -> float:
        return self.factor * (0.0002 + 0.004 * self.random.random() ** 4)


class SimulatedOffload(Offload):
    """Runs the work at one moment, some time after it was asked for; who waits hears of it later still."""

    def __init__(self, slowness: Slowness, threads: int) -> None:
        self._slowness, self._threads = slowness, threads
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = 0
        self._closed = False

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._waiting.append((work, future))
        self._start()
        return future

    def close(self) -> None:
        self._closed = True
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _start(self) -> None:
        while self._waiting and self._busy < self._threads:
            self._busy += 1
            work, future = self._waiting.popleft()
            asyncio.get_running_loop().call_later(self._slowness.seconds(), self._run, work, future)

    def _run(self, work: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        result, failure = None, None
        self._slowness.threads_now += 1
        try:
            result = work()
        except Exception as error:
            failure = error
        finally:
            self._slowness.threads_now -= 1
        life = LIFE.get()
        if life is None or not life.dead:
            asyncio.get_running_loop().call_later(self._slowness.seconds() / 4, self._tell, future, result, failure)

    def _tell(self, future: "asyncio.Future[Any]", result: Any, failure: Exception | None) -> None:
        self._busy -= 1
        if not future.done():
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(result)
        self._start()


class SimulatedChildren:
    """Child processes that work in place, after a delay. `on_disk`: how those work that go to a disk by themselves."""

    def __init__(self, slowness: Slowness, on_disk: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        self._slowness, self._on_disk = slowness, on_disk
        self._futures: dict[asyncio.Future[Any], None] = {}

    def run(
        self, work: "Work[A, R]", argument: A, on_progress: Report | None = None, *, quiet_s: float | None = None
    ) -> "asyncio.Future[R]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._futures[future] = None
        future.add_done_callback(lambda done: self._futures.pop(done, None))
        loop.call_later(2 * self._slowness.seconds(), self._do, work, argument, on_progress, future)
        return future

    def _do(self, work: "Work[A, R]", argument: A, on_progress: Report | None, future: "asyncio.Future[R]") -> None:
        if future.done():
            return
        self._slowness.threads_now += 1
        try:
            future.set_result(self._on_disk.get(work, work)(argument, on_progress or (lambda _: None)))
        except Exception as error:
            future.set_exception(error)
        finally:
            self._slowness.threads_now -= 1

    def close(self) -> None:
        for future in list(self._futures):
            future.cancel()
