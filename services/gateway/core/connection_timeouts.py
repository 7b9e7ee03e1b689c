"""Timeouts of a client connection: for the rest of a frame, for reading answers, for idling, and for requests that take room
which others need. No I/O."""

from math import inf

from libs.lean_dataclass import dataclass

BYTES_PER_SECOND = 16_384
"""Each so many bytes give a frame one more second. So a slow link may send a large batch, and one byte a second gains nothing."""
CROWDED_BYTES_PER_SECOND = 4 << 20
"""The same while other connections wait for room."""
RUNNING_S_MAX = 30.0
"""The time for which a request may run while other connections wait for room. Clients give up after as long."""


@dataclass(frozen=True, slots=True)
class TimeoutLimits:
    half_frame_s_max: float
    unread_answers_s_max: float
    idle_s_max: float
    crowded_s_max: float


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

    def check_room(self, now: float, since: float) -> tuple[str, str] | None:
        """Checks a client that is not read since that time, for there is no room for its requests."""
        if now - since > self._limits.half_frame_s_max:
            return "no-room", f"not read for {now - since:.0f} s"
        return None

    def overdue_since(self, half_frame_since: float, received: int, waiting_since: float, running_since: float) -> float:
        """The earliest time from which this connection may be closed for the room that others wait for. Infinite: never.

        Each time 0.0: it has no frame that is being read, no request that waits behind another one, or none that runs.
        """
        crowded_s_max = self._limits.crowded_s_max
        times = []
        if half_frame_since:
            times.append(half_frame_since + crowded_s_max + received / CROWDED_BYTES_PER_SECOND)
        if waiting_since:
            times.append(waiting_since + crowded_s_max)
        if running_since:
            times.append(running_since + max(RUNNING_S_MAX, crowded_s_max))
        return min(times, default=inf)

    def check_idle(self, now: float, last_active: float) -> tuple[str, str] | None:
        """Checks a client that has sent nothing since that time."""
        return ("idle", "") if now - last_active > self._limits.idle_s_max else None
