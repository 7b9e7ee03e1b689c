"""Timeouts of a client connection: for the rest of a frame, for reading answers, and for idling. No I/O."""

from dataclasses import dataclass

BYTES_PER_SECOND = 16_384
"""Each so many bytes give a frame one more second. So a slow link may send a large batch, and one byte a second gains nothing."""


@dataclass(frozen=True, slots=True)
class TimeoutLimits:
    half_frame_s_max: float
    unread_answers_s_max: float
    idle_s_max: float


class ConnectionTimeouts:
    """The timeouts of one connection. Each check returns a close reason with details, or None. Times are loop time; 0.0: not
    set."""

    __slots__ = ("_last_unread", "_limits", "_stalled_since")

    def __init__(self, limits: TimeoutLimits) -> None:
        self._limits = limits
        self._stalled_since = 0.0
        self._last_unread = 0

    def check_unread(self, now: float, unread: int) -> tuple[str, str] | None:
        """Checks a client that leaves so many bytes of answers unread, while its requests are not read."""
        if not unread:
            self._stalled_since = 0.0
        elif not self._stalled_since or unread != self._last_unread:
            self._stalled_since, self._last_unread = now, unread
        elif now - self._stalled_since > self._limits.unread_answers_s_max:
            return "unread", f"{unread} bytes of answers unread, requests piled up"
        return None

    def check_half_frame(self, now: float, since: float, received: int) -> tuple[str, str] | None:
        """Checks a client that has sent so many bytes of a frame since that time."""
        if now - since > self._limits.half_frame_s_max + received / BYTES_PER_SECOND:
            return "half-frame", f"{received} bytes of a frame in {now - since:.0f} s"
        return None

    def check_idle(self, now: float, last_active: float) -> tuple[str, str] | None:
        """Checks a client that has sent nothing since that time."""
        return ("idle", "") if now - last_active > self._limits.idle_s_max else None
