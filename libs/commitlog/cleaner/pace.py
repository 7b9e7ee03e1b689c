"""The rate limit of a job, and its progress messages."""

from collections.abc import Callable
from typing import NamedTuple

_BURST_S = 0.5
_REPORT_S = 1.0


class JobTime(NamedTuple):
    """The time of a job: real in a child process, virtual in tests and the simulator."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], object]


class Progress:
    """The pace of a job. It counts bytes that are read and written, sleeps when they exceed the limit, and reports about once a
    second."""

    def __init__(self, pace: JobTime, bytes_per_second: float, total_bytes: int, report: Callable[[object], None]) -> None:
        self._pace, self._rate, self._report = pace, bytes_per_second, report
        self._total_bytes = total_bytes
        self.started = self._due = self._reported = pace.monotonic()
        self.bytes_read = 0
        self.bytes_written = 0
        self.waited_s = 0.0
        """The time that it slept for the limit."""

    def read(self, size: int) -> None:
        self.bytes_read += size
        self._moved(size)

    def wrote(self, size: int) -> None:
        self.bytes_written += size
        self._moved(size)

    @property
    def seconds(self) -> float:
        return self._pace.monotonic() - self.started

    def _moved(self, size: int) -> None:
        now = self._pace.monotonic()
        if self._rate > 0:
            # Unused budget is lost except for a moment's worth, so that the disk is not flooded after a slow stretch.
            self._due = max(self._due, now - _BURST_S) + size / self._rate
            wait = self._due - now
            self.waited_s += max(0.0, wait)
            while wait > 0:  # reports go on, so that this wait does not look like a standstill
                self._pace.sleep(nap := min(wait, _REPORT_S))
                wait -= nap
                self._report_progress(now := self._pace.monotonic())
        self._report_progress(now)

    def _report_progress(self, now: float) -> None:
        if now - self._reported >= _REPORT_S:
            self._reported = now
            self._report({"bytes_read": self.bytes_read, "bytes_kept": self.bytes_written, "bytes_to_read": self._total_bytes})
