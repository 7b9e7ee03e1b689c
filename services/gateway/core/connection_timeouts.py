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
    """The timeouts of one connection. Times are loop time; 0.0: not set."""

    __slots__ = ("_last_unread", "_limits", "_stalled_since", "half_frame_since", "no_room_since")

    def __init__(self, limits: TimeoutLimits) -> None:
        self._limits = limits
        self._stalled_since = 0.0
        self._last_unread = 0
        self.half_frame_since = 0.0
        """Since when a frame is incomplete."""
        self.no_room_since = 0.0
        """Since when its input is held, for there is no room for its requests."""

    def read_on(self, now: float) -> None:
        """Its input is read again: the pause was ours, not the client's."""
        if self.half_frame_since:
            self.half_frame_since = now

    def verdict(
        self,
        now: float,
        is_paused: bool,
        unread: int,
        half_frame: int,
        idle_since: float,
        *,
        is_muted: bool = False,
        idle_s_max: float | None = None,
    ) -> tuple[str, str] | None:
        """The reason to close the connection now, with details, or None.

        `is_paused`: its client must read its answers first. `is_muted`: a quota keeps it from being read. `unread` and
        `half_frame` are bytes: of answers that it has not read, and of the incomplete frame. `idle_since` is infinite while a
        request is outstanding. `idle_s_max`: in the place of the gateway's own, for the port of this connection.
        """
        if (found := self._check_unread(now, unread if is_paused else 0)) is not None:
            return found
        if self.no_room_since:
            return self._check_room(now)
        if is_muted:
            return None
        if self.half_frame_since and not is_paused:
            return self._check_half_frame(now, half_frame)
        if idle_s_max is None:
            idle_s_max = self._limits.idle_s_max
        return ("idle", "") if now - idle_since > idle_s_max else None

    def overdue_since(self, half_frame: int, waiting_since: float, running_since: float) -> float:
        """The earliest time from which this connection may be closed for the room that others wait for. Infinite: never.

        `half_frame`: the bytes of the incomplete frame that have arrived. Times 0.0: no request waits behind another one, or none
        runs.
        """
        crowded_s_max = self._limits.crowded_s_max
        times = []
        if self.half_frame_since and not self.no_room_since:
            times.append(self.half_frame_since + crowded_s_max + half_frame / CROWDED_BYTES_PER_SECOND)
        if waiting_since:
            times.append(waiting_since + crowded_s_max)
        if running_since:
            times.append(running_since + max(RUNNING_S_MAX, crowded_s_max))
        return min(times, default=inf)

    def _check_unread(self, now: float, unread: int) -> tuple[str, str] | None:
        if not unread:
            self._stalled_since = 0.0
        elif not self._stalled_since or unread != self._last_unread:
            self._stalled_since, self._last_unread = now, unread
        elif now - self._stalled_since > self._limits.unread_answers_s_max:
            return "unread", f"{unread} bytes of answers unread, requests piled up"
        return None

    def _check_room(self, now: float) -> tuple[str, str] | None:
        since = self.no_room_since
        return ("no-room", f"not read for {now - since:.0f} s") if now - since > self._limits.half_frame_s_max else None

    def _check_half_frame(self, now: float, half_frame: int) -> tuple[str, str] | None:
        since = self.half_frame_since
        if now - since > self._limits.half_frame_s_max + half_frame / BYTES_PER_SECOND:
            return "half-frame", f"{half_frame} bytes of a frame in {now - since:.0f} s"
        return None
