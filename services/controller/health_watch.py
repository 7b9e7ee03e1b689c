"""Since when the cluster is as it is: each controller looks every second, and the active one logs each change that lasts."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from libs.clock import Clock, WallMs
from libs.cluster.health import Health, LongRunning, Verdict, also_degraded, health_of, outdated, with_long_running
from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields

log = logging.getLogger("controller")

LOOK_S: Final = 1.0
LOGGED_AFTER: Final = 3
"""The looks in which a verdict must be the same to be logged. A restart takes less time, and so does `make down`."""
SHARE_MAX: Final = 0.02
"""The share of the event loop's time that looks may take: a look walks over all partitions."""


class HealthWatch:
    """Call `run` once, and `health` at any time."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        elected: Callable[[], bool],
        registered: Callable[[], bool],
        clock: Clock,
        store_trouble: Callable[[], str] = str,
        long_running: Callable[[], Sequence[LongRunning]] = tuple,
    ) -> None:
        """`store_trouble` says in words what is wrong with the metadata store. Empty: nothing is. `long_running`: groups and
        transactions that take too long, the longest first."""
        self._image, self._elected, self._registered, self._clock = image, elected, registered, clock
        self._store_trouble = store_trouble
        self._long_running = long_running
        self._seen = ClusterImage()
        self._health = health_of(self._seen)
        self._reported = Verdict.UNKNOWN
        """The verdict that was told last. While the metadata store is away it is not the image's."""
        self._since_ms: WallMs | None = None
        self._is_begun = False
        """Whether it has told a verdict other than UNKNOWN. The first one began before this process."""
        self._looked_at = Verdict.UNKNOWN
        self._looks = 0
        """The number of looks that found that verdict, one after the other."""
        self._logged = Verdict.HEALTHY
        """The verdict of which the log speaks. A controller that takes over logs what it finds."""

    def health(self) -> Health:
        """It has no `since_ms` while the verdict is that of the first look: then it began before this process.

        An outage of the metadata store begins and ends a verdict: nobody knows what held meanwhile.
        """
        image = self._image()
        if image is not self._seen:
            self._seen, self._health = image, health_of(image)
        health = self._health
        if health.verdict is not Verdict.UNKNOWN and not self._registered():
            health = outdated(health)
        elif (trouble := self._store_trouble()) and health.verdict is not Verdict.UNKNOWN:
            health = also_degraded(health, trouble)
        if health.verdict is not self._reported:
            self._reported = health.verdict
            self._since_ms = self._clock.wall_ms() if self._is_begun else None
            self._is_begun = True
        health = replace(health, since_ms=self._since_ms)
        found = self._long_running()
        return with_long_running(health, found, self._clock.wall_ms()) if found else health

    async def run(self) -> None:
        while True:
            began = time.perf_counter()
            verdict = self.health().verdict
            self._looks = self._looks + 1 if verdict is self._looked_at else 1
            self._looked_at = verdict
            if self._elected() and self._looks >= LOGGED_AFTER:
                self._log_change()
            await asyncio.sleep(max(LOOK_S, (time.perf_counter() - began) / SHARE_MAX))

    def _log_change(self) -> None:
        health = self.health()
        verdict = health.verdict
        if verdict in (self._logged, Verdict.UNKNOWN):
            return
        level = logging.INFO if verdict is Verdict.HEALTHY else logging.WARNING
        log.log(level, f"the cluster is {verdict.value}", extra=fields(was=self._logged.value, how=health.sentence))
        self._logged = verdict
