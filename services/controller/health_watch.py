"""Since when the cluster is as it is: each controller looks every second, and the active one logs each change."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from libs.clock import Clock, WallMs
from libs.cluster.health import Health, Verdict, health_of
from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

LOOK_S = 1.0


class HealthWatch:
    """Call `run` once, and `health` at any time."""

    def __init__(self, image: Callable[[], ClusterImage], elected: Callable[[], bool], clock: Clock) -> None:
        self._image, self._elected, self._clock = image, elected, clock
        self._seen = ClusterImage()
        self._health = health_of(self._seen)
        self._since_ms: WallMs | None = None

    def health(self) -> Health:
        """It has no `since_ms` while the verdict is that of the first look: then it began before this process."""
        image = self._image()
        if image is not self._seen:
            self._seen = image
            self._take(health_of(image))
        return replace(self._health, since_ms=self._since_ms)

    async def run(self) -> None:
        while True:
            self.health()
            await asyncio.sleep(LOOK_S)

    def _take(self, health: Health) -> None:
        before, self._health = self._health, health
        if Verdict.UNKNOWN in (before.verdict, health.verdict) or before.verdict is health.verdict:
            return
        self._since_ms = self._clock.wall_ms()
        if self._elected():
            level = logging.INFO if health.verdict is Verdict.HEALTHY else logging.WARNING
            log.log(level, f"the cluster is {health.verdict.value}", extra=fields(was=before.verdict.value, how=health.sentence))
