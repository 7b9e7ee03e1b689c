"""What a node does every so often: flushes, checkpoints, forgetting silent producers, removing what was deleted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.follower import ImageFollower
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.config import StorageConfig
from services.storage.deletion_time import DeletionTime
from services.storage.disks import Disks
from services.storage.partitions import Partitions

log = logging.getLogger(__name__)

TICK_S = 1.0
PARTITIONS_PER_TURN = 20
"""Between so many partitions, requests get their turn."""
EXPIRATION, EXPIRY_CHECK = "producer.id.expiration.ms", "producer.id.expiration.check.interval.ms"


class Upkeep:
    """`run` until cancelled. A failure is logged, and the next turn comes."""

    def __init__(
        self,
        config: StorageConfig,
        time: DeletionTime,
        follower: ImageFollower,
        partitions: Partitions,
        disks: Disks,
        checkpoints: Checkpoints,
    ) -> None:
        self._config = config
        self._time = time
        self._follower = follower
        self._partitions = partitions
        self._disks = disks
        self._checkpoints = checkpoints

    async def run(self) -> None:
        await self._remove_buried()
        loop = asyncio.get_running_loop()
        config = self._config
        due: list[tuple[Callable[[], float], Callable[[], Awaitable[None]]]] = [
            (lambda: config.high_watermark_checkpoint_s, self._checkpoints.write_high_watermarks),
            (lambda: config.recovery_checkpoint_s, self._write_recovery_points),
            (lambda: self._broker_int(EXPIRY_CHECK) / 1000, self.expire_producers),
        ]
        done_at = [loop.time()] * len(due)
        while True:
            await asyncio.sleep(min(TICK_S, *(every() for every, _ in due)))
            for disk in self._disks.usable:
                disk.sync.flush_overdue()
            for slot, (every, work) in enumerate(due):
                if loop.time() >= done_at[slot] + every():
                    done_at[slot] = loop.time()
                    try:
                        await work()
                    except Exception:
                        log.exception("upkeep failed")

    async def _write_recovery_points(self) -> None:
        """`replicated` topics are synced now and then too: it bounds what a restart must read again."""
        for disk in self._disks.usable:
            disk.sync.flush_overdue(age_s_max=self._config.recovery_checkpoint_s)
        await self._checkpoints.write_recovery_points()

    async def expire_producers(self) -> None:
        """Only time takes a producer away."""
        now_ms, expiration_ms = self._time.now_ms(), self._broker_int(EXPIRATION)
        for number, hosted in enumerate(list(self._partitions.by_key.values())):
            if number % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
            hosted.log.producers.expire(now_ms, expiration_ms)

    def _broker_int(self, name: str) -> int:
        config = self._config
        return effective_broker_int(self._follower.image, name, broker_id=config.node_id, static=config.static)

    async def _remove_buried(self) -> None:
        # While they are here, what the checkpoint says of their names is known to be old.
        await self._checkpoints.write_high_watermarks()
        for disk in self._disks.all:
            try:
                await disk.remove_buried()
            except OSError as error:
                log.warning("files of deleted partitions stay", extra=fields(path=disk.path, reason=error))
