"""Log starts of followers: they follow their leaders' log starts, durably (`services/storage/logs/log_start_offsets.py`)."""

import asyncio
import logging

from libs.commitlog.model.errors import OffsetOutOfRange
from services.storage.disks.disks import Disk
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.partition.partition import Partition

log = logging.getLogger("replication")

RETRY_S = 1.0


class FollowedLogStarts:
    """The log starts that leaders told. Those that come while a disk is busy share its next turn; failed ones are retried."""

    def __init__(self, log_starts: LogStartOffsets) -> None:
        self._log_starts = log_starts
        self._waiting: dict[Disk, dict[Partition, None]] = {}
        self._tasks: dict[Disk, asyncio.Task[None]] = {}

    def follow(self, partition: Partition, disk: Disk, log_start: int) -> None:
        """Moves the log start, up to the high watermark: what the leader deleted was committed, but this log may not be there
        yet."""
        start = min(log_start, partition.high_watermark)
        if start <= partition.log.next_start_offset:
            return
        try:
            partition.log.delete_before(start, partition.high_watermark)
        except OffsetOutOfRange:
            return
        self._waiting.setdefault(disk, {})[partition] = None
        if disk not in self._tasks:
            self._tasks[disk] = asyncio.get_running_loop().create_task(self._advance(disk))

    async def _advance(self, disk: Disk) -> None:
        try:
            while shortened := self._waiting.pop(disk, None):
                due = list(shortened)
                if await self._log_starts.advance(due, disk):
                    self._log_starts.retire_soon(due, disk)
                elif not disk.sync.failed:
                    self._waiting[disk] = shortened | self._waiting.get(disk, {})
                    await asyncio.sleep(RETRY_S)
        except Exception:
            log.exception("log starts of followers did not advance")
        finally:
            del self._tasks[disk]

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
