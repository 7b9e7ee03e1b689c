"""SIGTERM and Ctrl-C while jobs run. It needs no PySpark."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stoppable(Protocol):
    def stop(self) -> None: ...


class StopSignals:
    """Stops all jobs at the first signal, in a thread of its own, and ends the process at the second.

    A signal comes in the middle of a call into Spark's JVM. An exception there spoils the connection of the main thread: the next
    call would get the answer to the one before. So does a call by the handler, and PySpark's own handler makes one.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        """`cancel` ends the work of jobs that are stopped in the middle. It is called in another thread."""
        self._cancel = cancel
        self._jobs: list[Stoppable] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.received: signal.Signals | None = None
        """The first signal; None: none has come."""

    def listen(self) -> None:
        """Call it in the main thread, and behind PySpark, which installs a handler for SIGINT."""
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def add(self, job: Stoppable) -> None:
        """A job that runs from now on. It is stopped at once if a signal has come."""
        with self._lock:
            self._jobs.append(job)
        if self.received is not None:
            job.stop()

    def wait_until_stopped(self) -> None:
        """Returns when all jobs have been stopped, if a signal has come."""
        if self._thread is not None:
            self._thread.join()

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = signal.Signals(number)
        self._thread = threading.Thread(target=self._stop_all, name="stop", daemon=True)
        self._thread.start()

    def _stop_all(self) -> None:
        with self._lock:
            jobs = list(self._jobs)
        for job in jobs:
            job.stop()
        self._cancel()
