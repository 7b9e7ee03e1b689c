"""A bound for log lines that come once for each partition."""

import logging

from libs.telemetry.limited_lines import Timers
from libs.telemetry.logs import fields


class LogBurst:
    """Lines of one event that a start or an election causes for each partition. `lines_max` of them an interval are logged as
    INFO. The others are DEBUG. A line at the end of the interval tells how many they were."""

    def __init__(self, log: logging.Logger, event: str, timers: Timers, *, lines_max: int = 10, interval_s: float = 1.0) -> None:
        self._log, self._event, self._timers = log, event, timers
        self._lines_max, self._interval_s = lines_max, interval_s
        self._ends = float("-inf")
        self._lines = self._passed_over = 0

    def write(self, **values: object) -> None:
        now = self._timers.time()
        if now >= self._ends:
            self._ends, self._lines = now + self._interval_s, 0
        if self._lines >= self._lines_max:
            if not self._passed_over:
                self._timers.call_later(self._ends - now, self._log_passed_over)
            self._passed_over += 1
            self._log.debug(self._event, extra=fields(**values))
            return
        self._lines += 1
        self._log.info(self._event, extra=fields(**values))

    def _log_passed_over(self) -> None:
        count, self._passed_over = self._passed_over, 0
        self._log.info(self._event, extra=fields(passed_over=count))
