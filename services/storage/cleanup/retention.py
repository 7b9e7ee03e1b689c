"""Retention: finds expired segments, one partition after the other, beside the node's other work.

Their removal, and its order, is in `services/storage/logs/log_start_offsets.py`.
"""

import asyncio
import logging

from libs.commitlog.model.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.partition_log.retention import Reason, RetentionPolicy
from libs.telemetry.logs import fields
from services.storage.cleanup.believed_clock import BelievedClock
from services.storage.config import BrokerConfigs
from services.storage.disks.disk_reads import PATIENCE_S, TooManyReads
from services.storage.disks.disks import Disk
from services.storage.logs.node_logs import NodeLogs
from services.storage.partition.partition import Partition
from services.storage.threads.turns import Turns

log = logging.getLogger("log")

INTERVAL = "log.retention.check.interval.ms"
FIRST_CHECK_S = 30.0


class Retention:
    """The check of all logs, run until cancelled."""

    def __init__(self, time: BelievedClock, broker_configs: BrokerConfigs, logs: NodeLogs) -> None:
        self._time = time
        self._broker_configs = broker_configs
        self._disks = logs.disks
        self._open_logs = logs.open_logs
        self._log_starts = logs.starts
        self._reads = logs.reads

    async def run(self) -> None:
        wait_s = FIRST_CHECK_S
        while True:
            interval_s = self._broker_configs.integer(INTERVAL) / 1000
            await asyncio.sleep(min(wait_s, interval_s))
            wait_s = interval_s
            try:
                await self.check()
            except Exception:
                log.exception("retention failed")

    async def check(self) -> None:
        """Checks every partition once. A disk whose sync hangs delays only itself."""
        await asyncio.gather(*[self._check_disk(disk) for disk in self._disks.usable])

    async def _check_disk(self, disk: Disk) -> None:
        shortened = []
        turns = Turns()
        try:
            for partition, log_disk in self._open_logs.all():
                await turns.taken()
                if log_disk is disk and self._open_logs.is_in_use(partition) and await self._expire_segments(partition):
                    shortened.append(partition)
        except TimeoutError:
            log.error("retention waits for a disk that does not answer", extra=fields(path=disk.path))
        if shortened and await self._log_starts.advance(shortened, disk):
            await self._log_starts.retire(shortened, disk)

    async def _expired(self, partition: Partition, policy: RetentionPolicy) -> list[Reason]:
        """See `Log.expired`. The ages of segments that nobody read lately are on the disk, and a thread of it reads them."""

        def look_up() -> list[Reason]:
            return partition.log.expired(policy, partition.high_watermark, self._time.now_ms())

        return await self._reads.look_up(look_up, PATIENCE_S)

    async def _expire_segments(self, partition: Partition) -> bool:
        """Whether the log gets shorter. Raises TimeoutError if the disk does not answer."""
        config, partition_log = partition.config, partition.log
        policy = RetentionPolicy(config.retention_ms, config.retention_bytes, "delete" in config.cleanup_policy)
        try:
            reasons = await self._expired(partition, policy)
            if not reasons or not self._open_logs.is_in_use(partition):
                return False
            if len(reasons) == len(partition_log.segments):
                partition_log.roll()
            partition_log.delete_before(partition_log.segments[len(reasons)].base_offset, partition.high_watermark)
        except TimeoutError:
            raise
        except (OSError, LogDamaged, OffsetOutOfRange, TooManyReads) as error:
            log.error("retention of a partition failed", extra=fields(partition=partition, reason=error))
            return False
        if partition_log.next_start_offset > partition_log.log_start_offset:
            log.info(
                "retention",
                extra=fields(
                    partition=partition,
                    segments=len(reasons),
                    reasons=",".join(sorted({reason.value for reason in reasons})),
                    log_start=partition_log.next_start_offset,
                ),
            )
        return True
