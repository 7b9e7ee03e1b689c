"""What a node does every so often: flushes, checkpoints, forgetting silent producers, removing what was deleted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.follower import ImageFollower
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.config import StorageConfig
from services.storage.disks import Disks
from services.storage.partitions import Partitions

log = logging.getLogger(__name__)

TICK_S = 1.0
PRODUCER_EXPIRY_S = 600.0


class Upkeep:
    """`run` until cancelled. A failure is logged, and the next turn comes."""

    def __init__(
        self,
        config: StorageConfig,
        clock: Clock,
        follower: ImageFollower,
        partitions: Partitions,
        disks: Disks,
        checkpoints: Checkpoints,
    ) -> None:
        self._config = config
        self._clock = clock
        self._follower = follower
        self._partitions = partitions
        self._disks = disks
        self._checkpoints = checkpoints

    async def run(self) -> None:
        await self._remove_buried()
        loop = asyncio.get_running_loop()
        due: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (self._config.high_watermark_checkpoint_s, self._checkpoints.write_high_watermarks),
            (self._config.recovery_checkpoint_s, self._write_recovery_points),
            (PRODUCER_EXPIRY_S, self._expire_producers),
        ]
        next_at = [loop.time() + every for every, _ in due]
        while True:
            await asyncio.sleep(min(TICK_S, *(every for every, _ in due)))
            for disk in self._disks.usable:
                disk.sync.flush_overdue()
            for slot, (every, work) in enumerate(due):
                if loop.time() >= next_at[slot]:
                    next_at[slot] = loop.time() + every
                    try:
                        await work()
                    except Exception:
                        log.exception("upkeep failed")

    async def _write_recovery_points(self) -> None:
        """`replicated` topics are synced now and then too: it bounds what a restart must read again."""
        for disk in self._disks.usable:
            disk.sync.flush_overdue(age_s_max=self._config.recovery_checkpoint_s)
        await self._checkpoints.write_recovery_points()

    async def _expire_producers(self) -> None:
        now_ms = self._clock.wall_ms()
        expiration_ms = effective_broker_int(self._follower.image, "producer.id.expiration.ms", broker_id=self._config.node_id)
        for hosted in self._partitions.by_key.values():
            hosted.log.producers.expire(now_ms, expiration_ms)

    async def _remove_buried(self) -> None:
        for disk in self._disks.all:
            try:
                await disk.remove_buried()
            except OSError as error:
                log.warning("files of deleted partitions stay", extra=fields(path=disk.path, reason=error))
