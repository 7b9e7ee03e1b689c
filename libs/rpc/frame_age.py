"""How long a frame waited before it was read. Pure.

A deadline that travels as "so many ms left" starts anew when it is read: a server that was stopped for a minute would take
everything that piled up meanwhile for fresh, and do work whose caller gave up long ago. Every frame therefore says when it was
sent, by the sender's monotonic clock. The two clocks share no origin, but the least difference ever seen between them is that of
a frame which hardly waited; whatever a frame has beyond it, it waited.
"""

_WINDOW_MS = 60_000
_NEVER = 1 << 62


class FrameAge:
    """One per connection. The least difference is that of the last two windows, since clocks drift apart."""

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
