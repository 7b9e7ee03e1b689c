"""A thread for one job at a time. The event loop hears of its end by an eventfd.

The hand-over of a pool wakes the loop through two futures, a pipe that is read until it is empty, and two iterations. That is a
third of what a sync round costs beside the sync.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from services.storage.threads.offload import Offload, ThreadOffload

T = TypeVar("T")

_Callback = Callable[[asyncio.Future[Any]], None] | None
_Work = tuple[Callable[[], Any], asyncio.Future[Any], _Callback]
_Ended = tuple[asyncio.Future[Any], _Callback, Any, BaseException | None]


def threads(name: str, count: int = 1) -> Offload:
    return OneThread(name) if count == 1 else ThreadOffload(name, count)


class OneThread(Offload):
    """The thread. It starts with the first work, and serves one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[_Work | None] = SimpleQueue()
        self._ended: deque[_Ended] = deque()
        self._pending = 0  # submitted work whose callback was neither called nor dropped
        self._event = -1
        self._closed = False

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._submit(work, None)

    def run(self, work: Callable[[], T], ended: "Callable[[asyncio.Future[T]], None]") -> None:
        self._submit(work, ended)

    def _submit(self, work: Callable[[], T], callback: "Callable[[asyncio.Future[T]], None] | None") -> "asyncio.Future[T]":
        if self._closed:
            raise RuntimeError(f"{self._name} is closed")
        if self._event < 0:
            self._begin()
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending += 1
        self._waiting.put((work, future, callback))
        return future

    def _begin(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop.add_reader(self._event, self._deliver)
        # A daemon thread: a sync that hangs must not keep the process from ending.
        threading.Thread(target=_run, args=(self._event, self._waiting, self._ended), name=self._name, daemon=True).start()

    def _deliver(self) -> None:
        os.eventfd_read(self._event)
        while self._ended:
            future, callback, outcome, error = self._ended.popleft()
            self._pending -= 1
            if future.done():
                continue
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)
            if callback is not None:
                self._call(callback, future)
        if self._closed and not self._pending:
            self._end()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(Empty):
            while (item := self._waiting.get_nowait()) is not None:
                self._pending -= 1
                _, future, callback = item
                future.cancel()
                if callback is not None:
                    self._loop.call_soon(callback, future)
        if not self._pending:
            self._end()

    def _call(self, callback: Callable[[asyncio.Future[Any]], None], done: asyncio.Future[Any]) -> None:
        """Calls one callback. If it fails, the ones behind it are called all the same."""
        try:
            callback(done)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"{self._name}: a callback has failed", "exception": error})

    def _end(self) -> None:
        """Ends the thread, which closes the eventfd. Closed here, its number could be another file's when the thread writes to
        it."""
        if self._event >= 0:
            self._loop.remove_reader(self._event)
            self._event = -1
            self._waiting.put(None)


def _run(event: int, waiting: SimpleQueue[_Work | None], ended: deque[_Ended]) -> None:
    while (item := waiting.get()) is not None:
        work, future, callback = item
        outcome, error = None, None
        if not future.cancelled():
            try:
                outcome = work()
            except BaseException as raised:
                error = raised
        ended.append((future, callback, outcome, error))
        del item, work, future, callback, outcome, error  # while the thread waits, it keeps nothing alive
        os.eventfd_write(event, 1)
    os.close(event)
