"""The wall time by which records are deleted. A jump ahead is not believed at once.

A clock that is set a year ahead makes every record old, and Kafka deletes them all at the next check. Here ages go on as if the
clock had not jumped, until it has stayed there for `BELIEVED_AFTER_S`. That gives operators time to notice. A jump back makes
records younger and deletes nothing, so it is believed. The clock at the start of a process is believed, too.
"""

from typing import Final

JUMP_MS_MIN: Final = 600_000
BELIEVED_AFTER_S: Final = 3600.0


class BelievedTime:
    """The clock by which records expire. It is asked now and then, with both clocks."""

    __slots__ = ("_doubted_since", "_monotonic_s", "_wall_ms")

    def __init__(self, wall_ms: int, monotonic_s: float) -> None:
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        self._doubted_since: float | None = None

    @property
    def doubts(self) -> bool:
        """Whether the clock has jumped ahead and is not believed yet."""
        return self._doubted_since is not None

    def at(self, wall_ms: int, monotonic_s: float) -> int:
        """The time that deletions go by, when the clocks show this."""
        expected_ms = self._wall_ms + round((monotonic_s - self._monotonic_s) * 1000)
        if wall_ms - expected_ms >= JUMP_MS_MIN:
            if self._doubted_since is None:
                self._doubted_since = monotonic_s
            if monotonic_s - self._doubted_since < BELIEVED_AFTER_S:
                return expected_ms
        self._doubted_since = None
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        return wall_ms
