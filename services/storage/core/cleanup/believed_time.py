"""The wall time by which things are deleted: a jump ahead is not believed at once.

A clock that is set a year ahead makes every record old. Kafka deletes them all at the next check. Here ages go on as if the clock
had not jumped, until it has stayed there for `BELIEVED_AFTER_S`: time for whoever keeps the clock to notice, or to be noticed. A
jump back makes everything younger and deletes nothing, so it is believed. So is whatever the clock says when a process starts.
"""

from typing import Final

JUMP_MS_MIN: Final = 600_000
BELIEVED_AFTER_S: Final = 3600.0


class BelievedTime:
    """Ask it now and then, with both clocks."""

    __slots__ = ("_doubted_since", "_monotonic_s", "_wall_ms")

    def __init__(self, wall_ms: int, monotonic_s: float) -> None:
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        self._doubted_since: float | None = None

    @property
    def doubts(self) -> bool:
        """Whether the clock has jumped ahead and is not believed yet."""
        return self._doubted_since is not None

    def at(self, wall_ms: int, monotonic_s: float) -> int:
        """What the wall time is to be taken for."""
        expected_ms = self._wall_ms + round((monotonic_s - self._monotonic_s) * 1000)
        if wall_ms - expected_ms >= JUMP_MS_MIN:
            if self._doubted_since is None:
                self._doubted_since = monotonic_s
            if monotonic_s - self._doubted_since < BELIEVED_AFTER_S:
                return expected_ms
        self._doubted_since = None
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        return wall_ms
