"""The end of a node's logs: each is synced and closed, and a directory whose logs all were is marked clean."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.open_files import OpenFiles
from libs.commitlog.files.sync import run_round
from libs.commitlog.partition_log.log import Log
from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk
from services.storage.logs.node_logs import NodeLogs

log = logging.getLogger("disks")

CLOSED_PER_ROUND: Final = 256


async def close_logs(logs: NodeLogs, fs: FileSystem, open_files: OpenFiles, *, may_mark_clean: Callable[[], bool]) -> None:
    """Closes all logs. A directory is marked clean only if every log in it was opened, and closed cleanly.

    `may_mark_clean`: whether all replicas' logs were opened, and nothing may still write to them.
    """
    await logs.checkpoints.write_high_watermarks()
    for disk in logs.disks.usable:
        await disk.sync.drain()  # the rounds of upkeep and retention
        on_disk = [partition.log for partition, log_disk in logs.open_logs.all() if log_disk is disk]
        try:
            await _close_on(disk, on_disk, fs, max(1, min(CLOSED_PER_ROUND, open_files.capacity // 16)))
            await logs.checkpoints.write_recovery_points()
            if may_mark_clean() and not disk.unopened():
                await disk.files.submit(disk.directory.mark_clean)
        except OSError as error:
            log.error("log directory not closed cleanly", extra=fields(path=disk.path, reason=error))


async def _close_on(disk: Disk, logs: Sequence[Log], fs: FileSystem, together: int) -> None:
    """Closes logs of one disk. Many share a round, but no more than may be open until its end. Raises OSError."""
    for first in range(0, len(logs), together):
        closing = logs[first : first + together]
        targets_by_log = await asyncio.gather(*[disk.logs.submit(closing_log.last_targets) for closing_log in closing])
        targets = [closing_log for closing_log in targets_by_log if closing_log is not None]
        if targets:
            await disk.files.submit(partial(run_round, targets, fs, disk.path))
        for closing_log, log_targets in zip(closing, targets_by_log, strict=True):
            if log_targets is not None:
                closing_log.mark_synced(log_targets)
