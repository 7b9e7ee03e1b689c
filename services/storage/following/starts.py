"""Lets followers' logs begin where their leaders' do, durably (`services/storage/shortening.py`)."""

import asyncio
import logging

from libs.commitlog.errors import OffsetOutOfRange
from services.storage.disks import Disk
from services.storage.hosted import Hosted
from services.storage.shortening import Shortening

log = logging.getLogger(__name__)

RETRY_S = 1.0


class LogStarts:
    """What arrives while a disk is busy with others shares its next turn. A disk that did not take it is asked again."""

    def __init__(self, shortening: Shortening) -> None:
        self._shortening = shortening
        self._waiting: dict[Disk, dict[Hosted, None]] = {}
        self._tasks: dict[Disk, asyncio.Task[None]] = {}

    def follow(self, hosted: Hosted, disk: Disk, log_start: int) -> None:
        """Only up to the high watermark: what the leader deleted was committed, but this log may not be there yet."""
        start = min(log_start, hosted.high_watermark)
        if start <= hosted.log.next_start_offset:
            return
        try:
            hosted.log.delete_before(start, hosted.high_watermark)
        except OffsetOutOfRange:
            return
        self._waiting.setdefault(disk, {})[hosted] = None
        if disk not in self._tasks:
            self._tasks[disk] = asyncio.get_running_loop().create_task(self._advance(disk))

    async def _advance(self, disk: Disk) -> None:
        try:
            while shorter := self._waiting.pop(disk, None):
                due = list(shorter)
                if await self._shortening.advance(due, disk):
                    self._shortening.retire_soon(due, disk)
                elif not disk.sync.failed:
                    self._waiting[disk] = shorter | self._waiting.get(disk, {})
                    await asyncio.sleep(RETRY_S)
        except Exception:
            log.exception("log starts of followers not advanced")
        finally:
            del self._tasks[disk]

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
