"""Lets logs begin later: what retention and DeleteRecords do once they know where.

Order of effects: the new start is announced → on disk in the checkpoint → seen by readers (and answered) → covered by a resume
point → the segments leave the log and their files are renamed → and, after the topic's file.delete.delay.ms, removed. After a
crash at any point no start that anybody saw has gone back, and nothing that was removed comes back. On a full disk the
checkpoint has its room already.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from libs.commitlog.filesystem import FileSystem
from libs.commitlog.retiring import remove_retired
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.disks import Disk
from services.storage.hosted import Hosted
from services.storage.residents import Residents
from services.storage.sync_scheduler import OWED_PER_ROUND

log = logging.getLogger(__name__)


class Shortening:
    """For all disks. `close` at the end."""

    def __init__(
        self, fs: FileSystem, residents: Residents, checkpoints: Checkpoints, *, on_start: Callable[[Hosted], None]
    ) -> None:
        """`on_start` hears of each log that starts later than it did."""
        self._fs = fs
        self._residents = residents
        self._checkpoints = checkpoints
        self._on_start = on_start
        self._tasks: set[asyncio.Task[None]] = set()

    async def advance(self, shorter: Sequence[Hosted], disk: Disk) -> bool:
        """Whether the announced starts hold now: they are on the disk, and readers see them. Of those that are still here."""
        starts = [(hosted, hosted.log.next_start_offset) for hosted in shorter]
        if not await self._checkpoints.write_log_starts(disk, anyway=True):
            return False
        moved: dict[Disk, list[Hosted]] = {}
        for hosted, start in starts:
            home = self._residents.home_of(hosted)
            if home is not disk and home is not None:
                moved.setdefault(home, []).append(hosted)
            elif self._residents.has_open(hosted):
                hosted.log.advance_start(start)  # not to what was announced while the checkpoint was being written
                self._on_start(hosted)
        return all([await self.advance(logs, home) for home, logs in moved.items()])

    def retire_soon(self, shorter: Sequence[Hosted], disk: Disk) -> None:
        """As `retire`, in its own time."""
        self._spawn(self.retire(shorter, disk))

    async def retire(self, shorter: Sequence[Hosted], disk: Disk) -> None:
        """Takes what lies before the starts out of the logs; the files go when readers had their time."""
        for hosted in shorter:
            if self._residents.has_open(hosted):
                hosted.sync.owe(hosted)
                hosted.sync.kick()
        for _ in range(2 + len(shorter) // OWED_PER_ROUND):  # the round that runs may have begun before
            await disk.sync.quiet()
        for hosted in shorter:
            if self._residents.has_open(hosted):
                await self._retire(hosted, disk)

    async def close(self) -> None:
        """What is not removed yet is removed at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _retire(self, hosted: Hosted, disk: Disk) -> None:
        retired = hosted.log.retire_segments()
        if retired is None:
            return
        hosted.sync.owe(hosted)  # it removes what was saved for those segments
        hosted.sync.kick()
        delay_s = hosted.config.file_delete_delay_ms / 1000
        try:
            paths = await disk.files.submit(partial(retired.rename, self._fs))
        except OSError as error:
            # Their partition was deleted meanwhile, or they keep their names until the next start, which removes them.
            log.warning("retired segments not renamed", extra=fields(partition=hosted, reason=error))
            return
        self.remove_later(disk, paths, delay_s)

    def remove_later(self, disk: Disk, paths: list[str], delay_s: float) -> None:
        """Files that are called `.deleted` by now."""
        self._spawn(self._remove_later(disk, paths, delay_s))

    async def _remove_later(self, disk: Disk, paths: list[str], delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await disk.files.submit(partial(remove_retired, self._fs, paths))
            await disk.files.submit(disk.directory.keep_spare_room)
        except OSError as error:
            log.warning("retired segments stay until the next start", extra=fields(paths=paths[:1], reason=error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
