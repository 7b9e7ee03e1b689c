"""How long a client may take: to send the rest of a frame, to take its answers, to say anything at all. No I/O."""

from dataclasses import dataclass

BYTES_PER_SECOND = 16_384
"""Bytes buy time, so that a slow link may send a large batch; one byte a second buys none."""


@dataclass(frozen=True, slots=True)
class PatienceLimits:
    half_frame_s_max: float
    unread_answers_s_max: float
    idle_s_max: float


class Patience:
    """Of one connection. Asked now and then; all times are loop time, 0.0 means "not now"."""

    __slots__ = ("_limits", "_stalled_since", "_unread_seen")

    def __init__(self, limits: PatienceLimits) -> None:
        self._limits = limits
        self._stalled_since = 0.0
        self._unread_seen = 0

    def with_unread(self, now: float, unread: int) -> tuple[str, str] | None:
        """Of a client that is not read from, since so much waits for it unread. Why to close it, and details; None: go on."""
        if not unread:
            self._stalled_since = 0.0
        elif not self._stalled_since or unread != self._unread_seen:
            self._stalled_since, self._unread_seen = now, unread
        elif now - self._stalled_since > self._limits.unread_answers_s_max:
            return "unread", f"{unread} bytes of answers unread, requests piled up"
        return None

    def with_half_frame(self, now: float, since: float, received: int) -> tuple[str, str] | None:
        if now - since > self._limits.half_frame_s_max + received / BYTES_PER_SECOND:
            return "half-frame", f"{received} bytes of a frame in {now - since:.0f} s"
        return None

    def with_silence(self, now: float, last_active: float) -> tuple[str, str] | None:
        return ("idle", "") if now - last_active > self._limits.idle_s_max else None
