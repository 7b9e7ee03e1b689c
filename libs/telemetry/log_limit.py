"""Bounds for a log line that anyone can cause as often as they like."""

import logging
from collections import OrderedDict
from collections.abc import Hashable

from libs.telemetry.logs import fields


class LogLimit:
    """Lets one line an interval through, and counts the others. Times are of any one monotonic clock."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._not_before = float("-inf")
        self._count = 0

    def count(self, now: float) -> int:
        """The number of events since the last line, this one included. 0: no line now."""
        self._count += 1
        if now < self._not_before:
            return 0
        self._not_before = now + self._interval_s
        count, self._count = self._count, 0
        return count


class LogLimits:
    """A limit for each key, such as the host of a client and what it does. Of more than `keys_max`, the one that was not used for
    longest is forgotten."""

    def __init__(self, interval_s: float, keys_max: int = 1000) -> None:
        self._interval_s, self._keys_max = interval_s, keys_max
        self._by_key: OrderedDict[Hashable, LogLimit] = OrderedDict()

    def count(self, key: Hashable, now: float) -> int:
        """As `LogLimit.count`, of this key."""
        limit = self._by_key.get(key)
        if limit is None:
            limit = self._by_key[key] = LogLimit(self._interval_s)
            if len(self._by_key) > self._keys_max:
                self._by_key.popitem(last=False)
        self._by_key.move_to_end(key)
        return limit.count(now)


class LogBurst:
    """Lines of one event that a start or an election causes for each partition. `lines_max` of them an interval are logged as
    INFO. The others are DEBUG, and the next line tells how many they were."""

    def __init__(self, log: logging.Logger, event: str, *, lines_max: int = 10, interval_s: float = 1.0) -> None:
        self._log, self._event = log, event
        self._lines_max, self._interval_s = lines_max, interval_s
        self._ends = float("-inf")
        self._lines = self._passed_over = 0

    def write(self, now: float, **values: object) -> None:
        if now >= self._ends:
            self._ends, self._lines = now + self._interval_s, 0
        if self._lines >= self._lines_max:
            self._passed_over += 1
            self._log.debug(self._event, extra=fields(**values))
            return
        self._lines += 1
        if self._passed_over:
            values["passed_over"], self._passed_over = self._passed_over, 0
        self._log.info(self._event, extra=fields(**values))
