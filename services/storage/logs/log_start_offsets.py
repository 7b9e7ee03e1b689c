"""Log start offsets: retention and DeleteRecords move them, durably before anybody sees it.

Order of effects: the new start is announced → on disk in the checkpoint → seen by readers (and answered) → covered by a resume
point → the segments leave the log and their files are renamed → after the topic's file.delete.delay.ms, the files are removed.
After a crash at any point, no start that anybody saw has gone back, and nothing that was removed comes back. The checkpoint's
space is reserved, for a full disk.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.segments.segment_removal import remove_retired
from libs.telemetry.logs import fields
from services.storage.core.sync_states import REQUESTED_PER_ROUND
from services.storage.disks.disks import Disk
from services.storage.logs.checkpoints import Checkpoints
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition

log = logging.getLogger("log")


class LogStartOffsets:
    """The log starts of all disks. `close` comes last."""

    def __init__(self, fs: FileSystem, open_logs: OpenLogs[Disk], checkpoints: Checkpoints) -> None:
        self._fs = fs
        self._open_logs = open_logs
        self._checkpoints = checkpoints
        self._tasks: set[asyncio.Task[None]] = set()

    async def advance(self, shortened: Sequence[Partition], disk: Disk) -> bool:
        """Makes the announced starts hold: first on the disk, then for readers. False: the disk did not take them."""
        starts = [(partition, partition.log.next_start_offset) for partition in shortened]
        if not await self._checkpoints.write_log_starts(disk):
            return False
        moved: dict[Disk, list[Partition]] = {}
        for partition, start in starts:
            log_disk = self._open_logs.disk_of(partition)
            if log_disk is not disk and log_disk is not None:
                moved.setdefault(log_disk, []).append(partition)
            elif self._open_logs.is_in_use(partition):
                partition.advance_start(start)  # not a start that was announced while the checkpoint was written
        return all([await self.advance(logs, log_disk) for log_disk, logs in moved.items()])

    def retire_soon(self, shortened: Sequence[Partition], disk: Disk) -> None:
        """As `retire`, in the background."""
        self._spawn(self.retire(shortened, disk))

    async def retire(self, shortened: Sequence[Partition], disk: Disk) -> None:
        """Takes the segments before the starts out of the logs. Their files go after file.delete.delay.ms."""
        for partition in shortened:
            if self._open_logs.is_in_use(partition):
                partition.sync.request_round(partition)
                partition.sync.start_round()
        for _ in range(2 + len(shortened) // REQUESTED_PER_ROUND):  # the running round may have begun before
            await disk.sync.wait_for_round()
        for partition in shortened:
            if self._open_logs.is_in_use(partition):
                await self._retire(partition, disk)

    async def close(self) -> None:
        """Ends removals. What is left is removed at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _retire(self, partition: Partition, disk: Disk) -> None:
        retired = partition.log.retire_segments()
        if retired is None:
            return
        partition.sync.request_round(partition)  # the round removes what was saved for those segments
        partition.sync.start_round()
        delay_s = partition.config.file_delete_delay_ms / 1000
        try:
            paths = await disk.files.submit(partial(retired.rename, self._fs))
        except OSError as error:
            # The partition was deleted meanwhile, or the files keep their names until the next start removes them.
            log.warning("retired segments not renamed", extra=fields(partition=partition, reason=error))
            return
        self.remove_later(disk, paths, delay_s)

    def remove_later(self, disk: Disk, paths: list[str], delay_s: float) -> None:
        """Removes files that are called `.deleted` already, after the delay."""
        self._spawn(self._remove_later(disk, paths, delay_s))

    async def _remove_later(self, disk: Disk, paths: list[str], delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await disk.files.submit(partial(remove_retired, self._fs, paths))
            await disk.files.submit(disk.directory.reserve_space)
        except OSError as error:
            log.warning("retired segments stay until the next start", extra=fields(paths=paths[:1], reason=error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
