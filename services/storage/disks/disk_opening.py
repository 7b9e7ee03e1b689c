"""Opens the log directories of a node, each with threads of its own: a disk that hangs must not hold up another."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryLocked, DirectoryRetired
from libs.commitlog.partition_log.directory import encode_id, find_directory_id
from libs.runtime.lifecycle import Stops
from libs.telemetry.logs import fields
from services.storage.config import StorageConfig
from services.storage.disks.disks import Disk, Scanned, scan
from services.storage.environment import Environment
from services.storage.partition.partition import Partition
from services.storage.partition.sync_scheduler import SyncEvents, SyncScheduler
from services.storage.threads.offload import BatchedOffload, Offload

log = logging.getLogger("disks")

LOGS_AT_ONCE = 8
"""The logs of one directory that are opened, made or closed at the same time."""
CLEAN_LOGS_AT_ONCE = 2
"""The same for logs that were closed cleanly, on a fast disk: next to nothing of them is read."""
READS_AT_ONCE = 8
"""The reads of one directory that lookups wait for at the same time. They also open batches for timestamps, decompressed."""


class OpenedDirectory(NamedTuple):
    """A directory of the configuration: its number there, its content, and its thread for one job at a time."""

    number: int
    scanned: Scanned
    files: Offload


async def open_directories(
    config: StorageConfig, environment: Environment, cluster_id: str, offline: set[str], stops: Stops
) -> list[OpenedDirectory]:
    """Locks and scans the directories. Paths that do not open go to `offline`; `stops` frees those that do.

    Raises DirectoryLocked if another process holds one, DirectoryOwnerMismatch if it is another node's, DirectoryDamaged if it is
    a copy of another. If none opens, raises the error of the first.
    """
    opened: list[OpenedDirectory] = []
    failures: list[Exception] = []
    threads_of = {path: environment.offload(f"files-{number}", 1) for number, path in enumerate(config.directories)}
    for threads in threads_of.values():
        stops.add(threads.close)
    await _refuse_copies(threads_of, environment.fs)
    for number, (path, files) in enumerate(threads_of.items()):
        new_id = environment.new_directory_id()

        def work(path: str = path, new_id: bytes = new_id) -> Scanned:
            return scan(path, environment.fs, new_id=new_id, node_id=config.node_id, cluster_id=cluster_id)

        try:
            scanned = await files.submit(work)
        except DirectoryLocked:
            raise
        except (OSError, DirectoryRetired) as error:
            log.error("log directory cannot be used", extra=fields(path=path, reason=error))
            offline.add(path)
            failures.append(error)
            continue
        stops.add(scanned.directory.close)
        opened.append(OpenedDirectory(number, scanned, files))
    if not opened:
        raise failures[0]
    return opened


def make_disk(opened: OpenedDirectory, config: StorageConfig, environment: Environment, events: SyncEvents[Partition]) -> Disk:
    """Makes the disk of an opened directory, with threads and a sync scheduler of its own."""
    number, scanned, files = opened
    syncing = environment.offload(f"sync-{number}", 1)
    path, fs = scanned.directory.path, environment.fs
    scheduler = SyncScheduler(path, fs, syncing, events, environment.open_files, hang_s=config.sync_hang_s)
    threads = environment.offload(f"logs-{number}", LOGS_AT_ONCE)
    logs, clean_logs = (
        BatchedOffload(threads, LOGS_AT_ONCE),
        BatchedOffload(threads, CLEAN_LOGS_AT_ONCE, threads_max=LOGS_AT_ONCE),
    )
    return Disk(scanned, scheduler, files, logs, clean_logs, environment.offload(f"reads-{number}", READS_AT_ONCE))


async def _refuse_copies(threads_of: Mapping[str, Offload], fs: FileSystem) -> None:
    """Refuses copies, before anything is written. Two directories of one id hold the same partitions, and nobody knows which is
    newer."""
    path_by_id: dict[bytes, str] = {}
    for path, files in threads_of.items():
        try:
            directory_id = await files.submit(partial(find_directory_id, fs, path))
        except OSError:
            continue  # its opening reports the error
        if directory_id is None:
            continue
        if directory_id in path_by_id:
            raise DirectoryDamaged(
                f"{path} is a copy of {path_by_id[directory_id]}: both have the id {encode_id(directory_id)}; "
                "leave one of them out of the node's log directories, or empty the copy"
            )
        path_by_id[directory_id] = path
