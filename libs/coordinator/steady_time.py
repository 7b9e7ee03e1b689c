"""Wall time that neither jumps nor goes back: it follows the clock at most half as fast again, or half as fast, as time passes.

Deadlines of a shard are persisted as wall time, so they mean the same to its next owner. A clock that is set by an hour would
end all sessions at once; so it is caught up with while members go on heartbeating.
"""

from collections.abc import Callable

from libs.clock import Clock

RATE = 0.5


class SteadyTime:
    def __init__(self, clock: Clock, seconds: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._now_ms = float(clock.wall_ms())
        self._at = seconds()

    def now_ms(self) -> int:
        at = self._seconds()
        passed_ms = (at - self._at) * 1000
        self._at = at
        earliest = self._now_ms + passed_ms * (1 - RATE)
        latest = self._now_ms + passed_ms * (1 + RATE)
        wall_ms = self._clock.wall_ms()
        self._now_ms = earliest if wall_ms < earliest else latest if wall_ms > latest else wall_ms
        return int(self._now_ms)
