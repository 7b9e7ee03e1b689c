"""A bound for log lines that anyone can cause as often as they like. None of them is forgotten in the count."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from libs.telemetry.logs import LONGEST_OF, LONGEST_VALUE, fields

OTHERS: Final = "others"


class Timers(Protocol):
    """What this needs of an event loop."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object: ...


class RunningLoop:
    """The timers of whichever event loop runs, for objects that are built before one does."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        return asyncio.get_running_loop().call_later(delay, callback)


class _Interval:
    """The time after a line of one key, and the lines that were withheld in it."""

    __slots__ = ("count", "ends", "event", "last_at", "level", "values")

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.count = 0
        self.last_at = 0.0
        self.level, self.event = logging.NOTSET, ""
        self.values: dict[str, object] = {}

    def withhold(self, now: float, level: int, event: str, values: dict[str, object]) -> None:
        self.count += 1
        self.last_at, self.level, self.event = now, level, event
        self.values = {name: _kept(name, value) for name, value in values.items()}


def _kept(name: str, value: object) -> object:
    """What a log line shows of a value, and that it is cut. A client's id may be long, and is kept for a while."""
    return value[: LONGEST_OF.get(name, LONGEST_VALUE) + 1] if isinstance(value, str) else value


class LimitedLines:
    """Log lines of which each key, such as the host of a client and what it does, has one an interval.

    The first is written at once, with a `count` of 1. If others follow within the interval, a line at its end has their `count`,
    what the last of them told, and how long ago that was. Then the next interval begins.

    Keys beyond `keys_max` share a line for each event, with `keys=others`. One timer serves all keys, while lines are withheld.
    """

    def __init__(self, log: logging.Logger, interval_s: float, timers: Timers, *, keys_max: int = 1000) -> None:
        self._log, self._interval_s, self._timers, self._keys_max = log, interval_s, timers, keys_max
        self._intervals: dict[Hashable, _Interval] = {}
        """In the order in which they end, since all are equally long."""
        self._timed = False

    def __len__(self) -> int:
        """The number of keys with a line in the last interval, as far as they are not forgotten yet."""
        return len(self._intervals)

    def write(self, key: Hashable, level: int, event: str, /, **values: object) -> None:
        now = self._timers.time()
        self._end_intervals(now)
        if key not in self._intervals and len(self._intervals) >= self._keys_max:
            key = OTHERS, event
            values["keys"] = OTHERS
        interval = self._intervals.get(key)
        if interval is None:
            self._intervals[key] = _Interval(now + self._interval_s)
            self._log.log(level, event, extra=fields(**values, count=1))
            return
        interval.withhold(now, level, event, values)
        if not self._timed:
            self._wake_at(interval.ends, now)

    def _wake_at(self, ends: float, now: float) -> None:
        self._timed = True
        self._timers.call_later(ends - now, self._wake)

    def _wake(self) -> None:
        self._timed = False
        now = self._timers.time()
        self._end_intervals(now)
        next_end = next((interval.ends for interval in self._intervals.values() if interval.count), None)
        if next_end is not None:
            self._wake_at(next_end, now)

    def _end_intervals(self, now: float) -> None:
        while self._intervals:
            key, interval = next(iter(self._intervals.items()))
            if now < interval.ends:
                return
            del self._intervals[key]
            if interval.count:
                self._intervals[key] = _Interval(now + self._interval_s)
                extra = fields(**interval.values, count=interval.count, last_ago_s=round(now - interval.last_at, 3))
                self._log.log(interval.level, interval.event, extra=extra)
