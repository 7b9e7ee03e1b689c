"""The tasks that a node runs by itself: checkpoints, retention, compaction."""

import asyncio

from services.storage.cleanup.believed_clock import BelievedClock
from services.storage.cleanup.cleaner_meters import CleanerMeters
from services.storage.cleanup.compaction import Compaction
from services.storage.cleanup.log_cleaner import LogCleaner
from services.storage.cleanup.periodic_tasks import PeriodicTasks
from services.storage.cleanup.retention import Retention
from services.storage.config import BrokerConfigs, StorageConfig
from services.storage.environment import Environment
from services.storage.logs.node_logs import NodeLogs
from services.storage.partition.partition_table import PartitionTable

CLEANER_NICE = 15
"""The niceness of compaction, which takes the processor when nobody else wants it."""


class BackgroundTasks:
    """The tasks. They share one believed clock, by which records expire."""

    def __init__(
        self,
        config: StorageConfig,
        environment: Environment,
        broker_configs: BrokerConfigs,
        partitions: PartitionTable,
        logs: NodeLogs,
    ) -> None:
        time = BelievedClock(environment.clock)
        self.upkeep = PeriodicTasks(config, time, broker_configs, partitions, logs)
        self.retention = Retention(time, broker_configs, logs)
        self.cleaning = LogCleaner(
            time,
            broker_configs,
            logs,
            CleanerMeters(environment.metrics, environment.clock),
            Compaction(environment.fs, logs.open_logs, logs.starts, logs.reads),
            lambda count: environment.children("cleaner", count, CLEANER_NICE),
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
