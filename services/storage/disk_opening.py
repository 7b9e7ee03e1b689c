"""Opens the log directories of a node, each with threads of its own: a disk that hangs must not hold up another."""

import logging

from libs.commitlog.errors import DirectoryLocked, DirectoryRetired
from libs.telemetry.logs import fields
from services.storage.config import StorageConfig
from services.storage.disks import Disk, Scanned, scan
from services.storage.offload import Bunches
from services.storage.surroundings import Surroundings
from services.storage.sync_scheduler import SyncEvents, SyncScheduler

log = logging.getLogger(__name__)

LOGS_AT_ONCE = 8
"""Logs of one directory that are opened, made or closed side by side."""
CLEAN_LOGS_AT_ONCE = 2
"""Of those that were closed cleanly, as long as the disk is quick: next to nothing of them is read."""


async def open_disks(
    config: StorageConfig, world: Surroundings, cluster_id: str, events: SyncEvents, offline: set[str]
) -> list[Disk]:
    """Those that open; the paths of the others go to `offline`. Raises DirectoryLocked if another process holds one, and what
    was wrong with the first if none opens."""
    opened: list[Disk] = []
    failures: list[Exception] = []
    for number, path in enumerate(config.directories):
        files = world.offload(f"files-{number}", 1)
        new_id = world.new_directory_id()

        def work(path: str = path, new_id: bytes = new_id) -> Scanned:
            return scan(path, world.fs, new_id=new_id, node_id=config.node_id, cluster_id=cluster_id)

        try:
            scanned = await files.submit(work)
        except DirectoryLocked:
            raise
        except (OSError, DirectoryRetired) as error:
            log.error("log directory cannot be used", extra=fields(path=path, reason=error))
            offline.add(path)
            failures.append(error)
            continue
        syncing = world.offload(f"sync-{number}", 1)
        scheduler = SyncScheduler(
            *(path, world.fs, syncing, events),
            hang_s=config.sync_hang_s,
            crowded=lambda: world.open_files.crowded,
        )
        threads = world.offload(f"logs-{number}", LOGS_AT_ONCE)
        logs, clean_logs = Bunches(threads, LOGS_AT_ONCE), Bunches(threads, CLEAN_LOGS_AT_ONCE, threads_max=LOGS_AT_ONCE)
        opened.append(Disk(scanned, scheduler, files, logs, clean_logs))
    if not opened:
        raise failures[0]
    return opened
