"""Periodic tasks of a node: flushes, checkpoints, expiry of silent producers, removal of deleted files."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.telemetry.logs import fields
from services.storage.cleanup import known_producers
from services.storage.cleanup.believed_clock import BelievedClock
from services.storage.config import BrokerConfigs, StorageConfig
from services.storage.logs.node_logs import NodeLogs
from services.storage.partition.partition_table import PartitionTable

log = logging.getLogger("log")

TICK_S = 1.0
EXPIRATION, EXPIRY_CHECK = "producer.id.expiration.ms", "producer.id.expiration.check.interval.ms"


class PeriodicTasks:
    """The tasks, run until cancelled. A failure is logged, and the next turn comes."""

    def __init__(
        self,
        config: StorageConfig,
        time: BelievedClock,
        broker_configs: BrokerConfigs,
        partitions: PartitionTable,
        logs: NodeLogs,
    ) -> None:
        self._config = config
        self._time = time
        self._broker_configs = broker_configs
        self._partitions = partitions
        self._disks = logs.disks
        self._checkpoints = logs.checkpoints

    async def run(self) -> None:
        await self._remove_deleted()
        loop = asyncio.get_running_loop()
        config = self._config
        due: list[tuple[Callable[[], float], Callable[[], Awaitable[None]]]] = [
            (lambda: config.high_watermark_checkpoint_s, self._checkpoints.write_high_watermarks),
            (lambda: config.recovery_checkpoint_s, self._write_recovery_points),
            (lambda: self._broker_configs.integer(EXPIRY_CHECK) / 1000, self.expire_producers),
            (lambda: TICK_S, self.bound_producers),
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
        """Syncs `replicated` topics now and then too: that bounds what a restart reads again."""
        for disk in self._disks.usable:
            disk.sync.flush_overdue(age_s_max=self._config.recovery_checkpoint_s)
        await self._checkpoints.write_recovery_points()

    async def expire_producers(self) -> None:
        """Expires silent producers."""
        now_ms, expiration_ms = self._time.now_ms(), self._broker_configs.integer(EXPIRATION)
        await known_producers.expire(self._partitions.by_key, now_ms, expiration_ms)

    async def bound_producers(self) -> None:
        """Keeps the number of producers that all logs remember below the node's bound."""
        await known_producers.bound(self._partitions.by_key, self._config.producer_ids_max)

    async def _remove_deleted(self) -> None:
        for disk in self._disks.usable:
            try:
                # The files go first: a full disk has no room for checkpoints before. While the directories are here, the
                # checkpoints' entries for their names are known to be old.
                await disk.remove_deleted_files()
                if await self._checkpoints.forget_deleted(disk):
                    await disk.remove_deleted()
            except OSError as error:
                log.warning("files of deleted partitions stay", extra=fields(path=disk.path, reason=error))
