"""Deletion of partition directories: renamed at once, removed when readers have had their time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk
from services.storage.partition.partition import Partition
from services.storage.threads.timers import Timers

log = logging.getLogger("log")


class LogDeletion:
    """The deletions. `delay_ms` gives log.segment.delete.delay.ms. `before_removal` makes the checkpoints of a disk forget
    deleted partitions, and says whether it did.

    Once their directories have gone, nothing else tells that a later log of the same name lacks no records. Their files go
    before: a full disk has no room for checkpoints until then.
    """

    def __init__(self, delay_ms: Callable[[], int], before_removal: Callable[[Disk], Awaitable[bool]]) -> None:
        self._delay_ms = delay_ms
        self._before_removal = before_removal
        self._loop = asyncio.get_running_loop()
        self._timers = Timers()
        self._removals: set[asyncio.Task[None]] = set()

    async def delete_files(self, partition: Partition, disk: Disk, *, message: str = "deleted") -> None:
        """Deletes files of a closed log. The caller holds the lock of its name, which is free afterwards."""
        try:
            path = await disk.delete_files(partition.key, partition.topic)
        except OSError as error:
            log.error("partition cannot be deleted", extra=fields(partition=partition, reason=error))
            return
        log.info(message, extra=fields(partition=partition, path=path))
        # As in Kafka: the topic's own file.delete.delay.ms went with the topic.
        self._timers.later(self._delay_ms() / 1000, partial(self._remove, disk, path))

    def _remove(self, disk: Disk, path: str) -> None:
        task = self._loop.create_task(self._remove_files(disk, path))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove_files(self, disk: Disk, path: str) -> None:
        try:
            await disk.remove_files(path)
            if await self._before_removal(disk):
                await disk.remove(path)
            else:
                log.warning("directory of a deleted partition stays until the next start", extra=fields(path=path))
        except OSError as error:
            log.warning("files of a deleted partition stay", extra=fields(path=path, reason=error))

    async def close(self) -> None:
        """Ends removals. The rest is removed after the next start."""
        self._timers.close()
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)
