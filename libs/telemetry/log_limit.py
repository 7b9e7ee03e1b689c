"""Bounds for a log line that anyone can cause as often as they like."""

from collections import OrderedDict
from collections.abc import Hashable


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
