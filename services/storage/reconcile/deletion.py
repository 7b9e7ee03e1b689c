"""Directories of partitions that this node shall not have any more: renamed at once, removed when readers had their time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from libs.telemetry.logs import fields
from services.storage.disks import Disk
from services.storage.hosted import Hosted
from services.storage.timers import Timers

log = logging.getLogger(__name__)


class Burials:
    """`delay_ms`: log.segment.delete.delay.ms, as it is now. `before_removal` makes checkpoints forget what was buried: when its
    files have gone, nothing else says that a topic of the same name lacks no records."""

    def __init__(self, delay_ms: Callable[[], int], before_removal: Callable[[], Awaitable[None]]) -> None:
        self._delay_ms = delay_ms
        self._before_removal = before_removal
        self._loop = asyncio.get_running_loop()
        self._timers = Timers()
        self._removals: set[asyncio.Task[None]] = set()

    async def bury(self, hosted: Hosted, disk: Disk, *, told: str = "deleted") -> None:
        """Its log there is closed, and the caller holds the lock of its name: afterwards that is free."""
        try:
            path = await disk.bury(hosted.key, hosted.topic)
        except OSError as error:
            log.error("partition cannot be deleted", extra=fields(partition=hosted, reason=error))
            return
        log.info(told, extra=fields(partition=hosted, path=path))
        # Kafka's choice too: the topic's own file.delete.delay.ms went with the topic.
        self._timers.later(self._delay_ms() / 1000, partial(self._remove, disk, path))

    def _remove(self, disk: Disk, path: str) -> None:
        task = self._loop.create_task(self._remove_files(disk, path))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove_files(self, disk: Disk, path: str) -> None:
        try:
            await self._before_removal()
            await disk.remove(path)
        except OSError as error:
            log.warning("files of a deleted partition stay", extra=fields(path=path, reason=error))

    async def close(self) -> None:
        """What is not removed yet is, after the next start."""
        self._timers.close()
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)
