"""How fast a job may go, and what it tells of itself on the way."""

from collections.abc import Callable
from typing import NamedTuple

_BURST_S = 0.5
_REPORT_S = 1.0


class Pace(NamedTuple):
    """Time for a job: real in a child process, virtual in tests and the simulator."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], object]


class Progress:
    """Counts what is read and written, sleeps when that was more than is allowed, reports about once a second."""

    def __init__(self, pace: Pace, bytes_per_second: float, total_bytes: int, report: Callable[[object], None]) -> None:
        self._pace, self._rate, self._report = pace, bytes_per_second, report
        self._total_bytes = total_bytes
        self.started = self._due = self._reported = pace.monotonic()
        self.bytes_read = 0
        self.bytes_written = 0

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
            # What was not used is lost but for a moment's worth: after a slow stretch the disk is not flooded.
            self._due = max(self._due, now - _BURST_S) + size / self._rate
            wait = self._due - now
            while wait > 0:  # whoever waits for a report shall not take this for a standstill
                self._pace.sleep(nap := min(wait, _REPORT_S))
                wait -= nap
                self._tell(now := self._pace.monotonic())
        self._tell(now)

    def _tell(self, now: float) -> None:
        if now - self._reported >= _REPORT_S:
            self._reported = now
            self._report({"bytes_read": self.bytes_read, "bytes_kept": self.bytes_written, "bytes_to_read": self._total_bytes})
