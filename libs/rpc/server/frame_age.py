"""The time that a frame waited before it was read. Pure.

A deadline that travels as remaining milliseconds starts anew when it is read. A server that was stopped for a minute would take
all waiting frames for fresh, and do work whose caller gave up long ago. So every frame has the time of its sending, by the
sender's monotonic clock. The two clocks share no origin. But the least difference ever seen between them is that of a frame which
hardly waited, and any difference beyond it is waiting time.
"""

_WINDOW_MS = 60_000
_NEVER = 1 << 62


class FrameAge:
    """An estimate of how long a frame lay unread, for one connection. The least difference is that of the last two windows, since
    clocks drift apart."""

    __slots__ = ("_before", "_current", "_window_ends")

    def __init__(self) -> None:
        self._before = self._current = _NEVER
        self._window_ends = 0

    def age_ms(self, sent_at_ms: int, now_ms: int) -> int:
        difference = now_ms - sent_at_ms
        if now_ms >= self._window_ends:
            if self._current != _NEVER:
                self._before = self._current
            self._current = _NEVER
            self._window_ends = now_ms + _WINDOW_MS
        if difference < self._current:
            self._current = difference
        return difference - min(self._before, self._current)
