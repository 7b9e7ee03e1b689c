"""Opens the log directories of a node, each with threads of its own: a disk that hangs must not hold up another."""

import logging
from collections.abc import Mapping
from functools import partial

from libs.commitlog.directory import encode_id, find_directory_id
from libs.commitlog.errors import DirectoryDamaged, DirectoryLocked, DirectoryRetired
from libs.commitlog.filesystem import FileSystem
from libs.telemetry.logs import fields
from services.storage.config import StorageConfig
from services.storage.disks import Disk, Scanned, scan
from services.storage.offload import Bunches, Offload
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
    """Those that open; the paths of the others go to `offline`. Raises DirectoryLocked if another process holds one,
    DirectoryOfAnother if one is another node's, DirectoryDamaged if one is a copy of another, and what was wrong with the first
    if none opens."""
    opened: list[Disk] = []
    failures: list[Exception] = []
    threads_of = {path: world.offload(f"files-{number}", 1) for number, path in enumerate(config.directories)}
    await _refuse_copies(threads_of, world.fs)
    for number, path in enumerate(config.directories):
        files = threads_of[path]
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


async def _refuse_copies(threads_of: Mapping[str, Offload], fs: FileSystem) -> None:
    """Before anything is written: two directories of one id hold the same partitions, and nobody knows which of them go on."""
    found: dict[bytes, str] = {}
    for path, files in threads_of.items():
        try:
            directory_id = await files.submit(partial(find_directory_id, fs, path))
        except OSError:
            continue  # whoever opens it finds out what is wrong
        if directory_id is None:
            continue
        if directory_id in found:
            for one in threads_of.values():
                one.close()
            raise DirectoryDamaged(
                f"{path} is a copy of {found[directory_id]}: both have the id {encode_id(directory_id)}; leave one of them out "
                "of the node's log directories, or empty the copy"
            )
        found[directory_id] = path
