"""One thread for one thing at a time, whose end the loop hears of by an eventfd.

A pool's hand-over wakes the loop through two futures, a pipe that is read until it is empty, and two iterations: a third of what
a sync round costs beside the sync.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from services.storage.offload import Offload, ThreadOffload

T = TypeVar("T")

_Told = Callable[[asyncio.Future[Any]], None] | None
_Work = tuple[Callable[[], Any], asyncio.Future[Any], _Told]
_Ended = tuple[asyncio.Future[Any], _Told, Any, BaseException | None]


def threads(name: str, count: int = 1) -> Offload:
    return OneThread(name) if count == 1 else ThreadOffload(name, count)


class OneThread(Offload):
    """The thread starts with the first work. Used on one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[_Work | None] = SimpleQueue()
        self._ended: deque[_Ended] = deque()
        self._untold = 0  # submitted, and neither told nor dropped
        self._event = -1
        self._closed = False

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._submit(work, None)

    def run(self, work: Callable[[], T], ended: "Callable[[asyncio.Future[T]], None]") -> None:
        self._submit(work, ended)

    def _submit(self, work: Callable[[], T], told: "Callable[[asyncio.Future[T]], None] | None") -> "asyncio.Future[T]":
        if self._closed:
            raise RuntimeError(f"{self._name} is closed")
        if self._event < 0:
            self._begin()
        future: asyncio.Future[T] = self._loop.create_future()
        self._untold += 1
        self._waiting.put((work, future, told))
        return future

    def _begin(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop.add_reader(self._event, self._tell)
        # A daemon: a sync that hangs must not keep a process from ending.
        threading.Thread(target=_run, args=(self._event, self._waiting, self._ended), name=self._name, daemon=True).start()

    def _tell(self) -> None:
        os.eventfd_read(self._event)
        while self._ended:
            future, told, outcome, error = self._ended.popleft()
            self._untold -= 1
            if future.done():
                continue
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)
            if told is not None:
                self._call(told, future)
        if self._closed and not self._untold:
            self._end()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(Empty):
            while (item := self._waiting.get_nowait()) is not None:
                self._untold -= 1
                _, future, told = item
                future.cancel()
                if told is not None:
                    self._loop.call_soon(told, future)
        if not self._untold:
            self._end()

    def _call(self, told: Callable[[asyncio.Future[Any]], None], done: asyncio.Future[Any]) -> None:
        """Whoever comes next is told, whatever this one makes of it."""
        try:
            told(done)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"{self._name}: who was told has failed", "exception": error})

    def _end(self) -> None:
        """The thread closes the eventfd, since it may be about to write to it: the number could be another file's by then."""
        if self._event >= 0:
            self._loop.remove_reader(self._event)
            self._event = -1
            self._waiting.put(None)


def _run(event: int, waiting: SimpleQueue[_Work | None], ended: deque[_Ended]) -> None:
    while (item := waiting.get()) is not None:
        work, future, told = item
        outcome, error = None, None
        if not future.cancelled():
            try:
                outcome = work()
            except BaseException as raised:
                error = raised
        ended.append((future, told, outcome, error))
        del item, work, future, told, outcome, error  # while it waits, it keeps nothing alive
        os.eventfd_write(event, 1)
    os.close(event)
