"""Wall time that neither jumps nor goes back. It runs at half to one and a half times the speed of real time until it has caught
up with the clock.

A shard's deadlines are persisted as wall time, so that they mean the same to its next owner. If somebody sets the clock forward
by an hour, all sessions would end at once. So this time follows slowly, while members go on heartbeating.

A process has one, from its start on. A shard that is opened while the clock is ahead goes by it too.
"""

from collections.abc import Callable

from libs.clock import Clock

RATE = 0.5
CATCH_UP_MS_MAX = 60_000
"""The most that one look catches up. An owner of no shards looks rarely, and a long silence proves nothing of the clock."""


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
        catch_up_ms = min(passed_ms * RATE, CATCH_UP_MS_MAX)
        earliest = self._now_ms + passed_ms - catch_up_ms
        latest = self._now_ms + passed_ms + catch_up_ms
        wall_ms = self._clock.wall_ms()
        self._now_ms = earliest if wall_ms < earliest else latest if wall_ms > latest else wall_ms
        return int(self._now_ms)
