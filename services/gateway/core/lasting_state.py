"""Since when something goes on that is only seen by its events. No I/O; times are seconds of one clock."""


class LastingState:
    """It goes on as long as its events are no further apart than `gap_s`."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._since = self._last = 0.0

    def note(self, now: float) -> None:
        """Another event."""
        if self.since(now) is None:
            self._since = now
        self._last = now

    def since(self, now: float) -> float | None:
        """The time of its first event. None: it is over, or there was none."""
        return self._since if self._last and now - self._last <= self._gap_s else None
