"""The clock of everything that deletes by age. The rule is in `services/storage/core/cleanup/believed_time.py`."""

import logging

from libs.clock import Clock
from libs.telemetry.logs import fields
from services.storage.core.cleanup.believed_time import BELIEVED_AFTER_S, BelievedTime

log = logging.getLogger("log")


class BelievedClock:
    """One for a node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._believed = BelievedTime(clock.wall_ms(), clock.monotonic())

    def now_ms(self) -> int:
        wall_ms, doubted = self._clock.wall_ms(), self._believed.doubts
        now_ms = self._believed.at(wall_ms, self._clock.monotonic())
        if self._believed.doubts and not doubted:
            ahead = fields(seconds=(wall_ms - now_ms) // 1000, believed_after_s=BELIEVED_AFTER_S)
            log.error("the clock jumped ahead, nothing is deleted for that yet: set it right if it is wrong", extra=ahead)
        elif doubted and not self._believed.doubts:
            log.warning("the clock is believed again")
        return now_ms
