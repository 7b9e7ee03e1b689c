"""What a process that ended within a move left: a copy that was not whole, or two directories of one name, both whole.

Of two, the one that was moved more often goes on; the other is set aside and kept, like anything that nobody asks for. Copies are
begun anew to where they were to go. One whose log is not here stays: the state may name the directory that it is in.
"""

import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.directory import LogDirectory, read_moves
from libs.commitlog.errors import DirectoryDamaged
from libs.commitlog.filesystem import FileSystem
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.disks import Disk, Disks
from services.storage.hosted import Key
from services.storage.moving.moves import Moves
from services.storage.residents import Residents

log = logging.getLogger(__name__)


async def settle_twins(disks: Disks, fs: FileSystem, assigned: Callable[[Key], str]) -> None:
    """Before logs are opened. `assigned`: the directory that the partition's state names; it decides where nothing else does."""
    holders: dict[Key, list[Disk]] = {}
    for disk in disks.all:
        for key in disk.scanned.paths:
            holders.setdefault(key, []).append(disk)
    for key, twins in holders.items():
        if len(twins) > 1:
            await _settle(key, twins, fs, assigned(key))


async def _settle(key: Key, twins: list[Disk], fs: FileSystem, assigned: str) -> None:
    moves = {disk: await disk.files.submit(partial(read_moves, fs, disk.scanned.paths[key])) for disk in twins}
    newest = max(twins, key=lambda disk: (moves[disk], disk.directory_id == assigned))
    for disk in twins:
        if disk is not newest:
            topic = disk.scanned.paths[key].rpartition("/")[2].rpartition("-")[0]
            aside = await disk.set_aside(key, topic)
            what = {"topic": topic, "partition": key[1], "used": newest.scanned.paths[key], "path": aside}
            log.warning("two directories hold the same partition: the older one set aside", extra=fields(**what))


async def begin_anew(disks: Disks, residents: Residents, moves: Moves, checkpoints: Checkpoints) -> None:
    """When logs are open."""
    for disk in disks.usable:
        try:
            futures = await disk.files.submit(disk.directory.find_futures)
            # What the checkpoint says of their names is of the moves that they belong to.
            if not futures or not await checkpoints.write_log_starts(disk, anyway=True):
                continue
            for path in futures:
                topic_id = await disk.files.submit(partial(_topic_id_of, disk.directory, path))
                index = path.rpartition("/")[2].rpartition(".")[0].rpartition("-")[2]
                key = (topic_id, int(index)) if topic_id is not None and index.isdigit() else None
                home = residents.home(key) if key is not None else None
                if home is not None and home[1] is not disk and not home[0].offline:
                    moves.start(*home, disk)  # in place of what is there
                elif (home is not None and home[0].offline) or (key is not None and residents.lacks(key)):
                    log.warning("copy of a replica kept, its log is not here", extra=fields(path=path))
                else:
                    await disk.files.submit(partial(disk.directory.remove, path))
                    log.info("copy of a replica that was not whole removed", extra=fields(path=path))
        except OSError as error:
            log.warning("moves between log directories are not begun anew", extra=fields(path=disk.path, reason=error))


def _topic_id_of(directory: LogDirectory, path: str) -> bytes | None:
    try:
        return directory.read_topic_id(path)
    except (DirectoryDamaged, NotADirectoryError):
        return None
