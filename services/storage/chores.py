"""What a node does by itself, now and then: checkpoints, retention, compaction."""

import asyncio

from libs.cluster.follower import ImageFollower
from services.storage.checkpoints import Checkpoints
from services.storage.cleaner_meters import CleanerMeters
from services.storage.cleaning import Cleaning
from services.storage.compaction import Compaction
from services.storage.config import StorageConfig
from services.storage.deletion_time import DeletionTime
from services.storage.disks import Disks
from services.storage.partitions import Partitions
from services.storage.residents import Residents
from services.storage.retention import Retention
from services.storage.shortening import Shortening
from services.storage.surroundings import Surroundings
from services.storage.upkeep import Upkeep

CLEANER_NICE = 15
"""Compaction takes the processor when nobody else wants it."""


class Chores:
    """They share one notion of time, by which records are deleted."""

    def __init__(
        self,
        config: StorageConfig,
        world: Surroundings,
        follower: ImageFollower,
        partitions: Partitions,
        disks: Disks,
        residents: Residents,
        checkpoints: Checkpoints,
        shortening: Shortening,
    ) -> None:
        time = DeletionTime(world.clock)
        self.upkeep = Upkeep(config, time, follower, partitions, disks, checkpoints)
        self.retention = Retention(
            *(time, follower, disks, residents, shortening),
            node_id=config.node_id,
            static=config.static,
        )
        self.cleaning = Cleaning(
            *(time, follower, disks, residents),
            CleanerMeters(world.metrics, world.clock),
            Compaction(world.fs, residents, shortening),
            checkpoints,
            lambda count: world.children("cleaner", count, CLEANER_NICE),
            node_id=config.node_id,
            static=config.static,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self.upkeep.run(), name="storage upkeep"),
            loop.create_task(self.cleaning.run(), name="log cleaner"),
            loop.create_task(self.retention.run(), name="retention"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.cleaning.close()
