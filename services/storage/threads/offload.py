"""Blocking work off the event loop. The simulator runs it inline, after a drawn delay."""

import asyncio
import resource
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs `work` off the loop. Work begins in the order of submission."""
        ...

    def run(self, work: Callable[[], T], ended: "Callable[[asyncio.Future[T]], None]") -> None:
        """As `submit`, with a callback. Where possible, `ended` is called in the same iteration in which the loop hears of the
        end."""
        self.submit(work).add_done_callback(ended)

    def close(self) -> None:
        """Drops work that has not begun, and waits for nothing."""
        ...


class ThreadOffload(Offload):
    """A pool whose threads start when there is work. One thread does one job at a time."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class BatchedOffload(Offload):
    """Many small jobs for a few threads: jobs that come together are done in `threads` batches, not one by one.

    To hand a job to a thread and back costs more than to open a log that was closed cleanly, and thousands are opened at once.
    """

    BATCH_MAX = 64
    SLOW_S = 0.002

    def __init__(self, offload: Offload, threads: int, *, threads_max: int = 0) -> None:
        """`threads_max`: the number of threads for jobs that wait for a slow disk.

        Jobs that wait for nothing hinder each other, since every system call releases the interpreter: eight threads took twice
        as long as two.
        """
        self._offload, self._threads, self._threads_max = offload, threads, max(threads, threads_max)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._running = 0
        self._starting = False

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((work, future))
        if not self._starting and self._running < self._threads:
            self._starting = True
            self._loop.call_soon(self._start)
        return future

    def close(self) -> None:
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._offload.close()

    def _start(self) -> None:
        self._starting = False
        while self._waiting and self._running < self._threads:
            rows = self._threads - self._running
            size = min(-(-len(self._waiting) // rows), self.BATCH_MAX)
            batch = [self._waiting.popleft() for _ in range(size)]
            self._running += 1
            works, futures = [work for work, _ in batch], [future for _, future in batch]
            self._offload.submit(lambda works=works: _done(works)).add_done_callback(  # type: ignore[misc]
                lambda done, futures=futures: self._ended(futures, done)  # type: ignore[misc]
            )

    def _ended(
        self, futures: "list[asyncio.Future[Any]]", done: "asyncio.Future[tuple[list[tuple[Any, BaseException | None]], float]]"
    ) -> None:
        self._running -= 1
        cancelled = [(None, asyncio.CancelledError())] * len(futures)
        results, waited_s = done.result() if not done.cancelled() else (cancelled, 0.0)
        if waited_s > self.SLOW_S * len(futures) and self._threads < self._threads_max:
            self._threads += 1
        for future, (result, error) in zip(futures, results, strict=True):
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            elif isinstance(error, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
        self._start()


def _done(works: list[Callable[[], Any]]) -> tuple[list[tuple[Any, BaseException | None]], float]:
    """The results, and the seconds that they took if a disk was read."""
    began, read_before = time.monotonic(), _blocks_read()
    results: list[tuple[Any, BaseException | None]] = []
    for work in works:
        try:
            results.append((work(), None))
        except Exception as error:
            results.append((None, error))
    return results, time.monotonic() - began if _blocks_read() > read_before else 0.0


def _blocks_read() -> int:
    """Blocks that this thread read past the page cache."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
