"""A bound for one log line that may come as often as it likes."""


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
