"""Leftovers of a process that ended within a move: an incomplete copy, or two complete directories of one name.

Of two directories, the one that was moved more often goes on. The other is set aside and kept, like any stray. Moves with
incomplete copies start again, to the same targets. A copy whose log is not here stays: the state may name its directory.
"""

import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.partition_log.directory import LogDirectory, read_moves
from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk, Disks
from services.storage.logs.node_logs import NodeLogs
from services.storage.moving.moves import Moves
from services.storage.partition.partition import Key

log = logging.getLogger("disks")


async def resolve_duplicates(disks: Disks, fs: FileSystem, assigned: Callable[[Key], str]) -> None:
    """Resolves duplicates before logs are opened. `assigned` gives the directory in the partition's state, which breaks a tie."""
    holders: dict[Key, list[Disk]] = {}
    for disk in disks.all:
        for key in disk.scanned.paths:
            holders.setdefault(key, []).append(disk)
    for key, duplicates in holders.items():
        if len(duplicates) > 1:
            await _resolve(key, duplicates, fs, assigned(key))


async def _resolve(key: Key, duplicates: list[Disk], fs: FileSystem, assigned: str) -> None:
    moves = {disk: await disk.files.submit(partial(read_moves, fs, disk.scanned.paths[key])) for disk in duplicates}
    newest = max(duplicates, key=lambda disk: (moves[disk], disk.directory_id == assigned))
    for disk in duplicates:
        if disk is not newest:
            topic = disk.scanned.paths[key].rpartition("/")[2].rpartition("-")[0]
            aside = await disk.set_aside(key, topic)
            details = {"topic": topic, "partition": key[1], "used": newest.scanned.paths[key], "path": aside}
            log.warning("two directories hold the same partition: the older one set aside", extra=fields(**details))


async def restart_moves(logs: NodeLogs, is_missing: Callable[[Key], bool], moves: Moves) -> None:
    """Restarts moves when logs are open."""
    for disk in logs.disks.usable:
        try:
            futures = await disk.files.submit(disk.directory.find_futures)
            # The checkpoint's entries for these names belong to the moves.
            if not futures or not await logs.checkpoints.write_log_starts(disk):
                continue
            for path in futures:
                topic_id = await disk.files.submit(partial(_topic_id_of, disk.directory, path))
                index = path.rpartition("/")[2].rpartition(".")[0].rpartition("-")[2]
                key = (topic_id, int(index)) if topic_id is not None and index.isdigit() else None
                opened = logs.open_logs.get(key) if key is not None else None
                if opened is not None and opened[1] is not disk and not opened[0].offline:
                    moves.start(opened[0], opened[1], disk)  # in place of the copy that is there
                elif (opened is not None and opened[0].offline) or (key is not None and is_missing(key)):
                    log.warning("copy of a replica kept, its log is not here", extra=fields(path=path))
                else:
                    await disk.files.submit(partial(disk.directory.remove, path))
                    log.info("incomplete copy of a replica removed", extra=fields(path=path))
        except OSError as error:
            log.warning("moves between log directories cannot restart", extra=fields(path=disk.path, reason=error))


def _topic_id_of(directory: LogDirectory, path: str) -> bytes | None:
    try:
        return directory.read_topic_id(path)
    except (DirectoryDamaged, NotADirectoryError):
        return None
