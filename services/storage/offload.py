"""Blocking work off the event loop. A seam: the simulator runs it inline after a drawn delay."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs `work` off the loop, begun in the order of submission."""
        ...

    def close(self) -> None:
        """Waits for nothing. Work that has not begun is dropped."""
        ...


class ThreadOffload:
    """Threads start when there is work. With one thread, one thing at a time is done."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
