"""SIGTERM and Ctrl-C while jobs run. It needs no PySpark."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ONE_SIGNAL_S = 1.0
"""Signals within this time count as one. `timeout` sends each twice: to the process, and to its process group."""
_log = logging.getLogger(__name__)


class Stoppable(Protocol):
    def stop(self) -> None: ...


class StopSignals:
    """Stops all jobs at the first signal, in a thread of its own, and ends the process at the second, later one.

    A signal comes in the middle of a call into Spark's JVM. An exception there spoils the connection of the main thread: the next
    call would get the answer to the one before. So does a call by the handler, and PySpark's own handler makes one.
    """

    def __init__(self, cancel: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`cancel` ends the work of jobs that are stopped in the middle. It is called in another thread."""
        self._cancel = cancel
        self._clock = clock
        self._received_s = 0.0
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

    def has_come(self, within_s: float) -> bool:
        """Whether a signal has come, or comes within that time: what else it has ended may be noticed first."""
        until_s = self._clock() + within_s
        while self.received is None and self._clock() < until_s:
            time.sleep(0.01)
        return self.received is not None

    def _receive(self, number: int, _: FrameType | None) -> None:
        now_s = self._clock()
        if self.received is not None:
            if now_s - self._received_s >= ONE_SIGNAL_S:
                os._exit(128 + number)
            return
        self._received_s = now_s
        self.received = signal.Signals(number)
        self._thread = threading.Thread(target=self._stop_all, name="stop", daemon=True)
        self._thread.start()

    def _stop_all(self) -> None:
        with self._lock:
            jobs = list(self._jobs)
        for stop in (*(job.stop for job in jobs), self._cancel):
            try:
                stop()
            except Exception:  # Spark's JVM may be gone, and what it ran with it
                _log.warning("a job could not be stopped in order", exc_info=True)
