"""Opens the logs of this node's partitions: many side by side, those with much to read in child processes.

One partition's trouble is not the directory's (a full disk, too many files, a damaged log): others go on. But a sync that fails
while a log is recovered is the directory's, as it is later.
"""

import asyncio
import logging
from functools import partial

from libs.clock import Clock
from libs.commitlog.config import LogConfig
from libs.commitlog.errors import DirectoryDamaged, LogDamaged, MuchToRead, SyncFailed
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.log import Log
from libs.commitlog.segment import FileRegistry
from libs.telemetry.logs import fields
from services.storage.disks import Disk
from services.storage.hosted import Key
from services.storage.recovery import Recovery

log = logging.getLogger(__name__)

OPENINGS_MAX = 256
READ_HERE_BYTES_MAX = 8 << 20
"""A log with more to read than this is worth a process: a start of Python costs as much as reading so much."""

TROUBLE = (OSError, LogDamaged, DirectoryDamaged)


def what_to_do(path: str) -> str:
    """About a log that lost what was synced."""
    look = f"python -m libs.commitlog verify {path}"
    give_up = f"python -m libs.commitlog accept-loss {path}"
    return f"{look}; put back what is missing, then touch {path}; or go on without it: {give_up}"


class Openings:
    def __init__(self, fs: FileSystem, registry: FileRegistry, clock: Clock, recovery: Recovery) -> None:
        self._fs, self._registry, self._clock = fs, registry, clock
        self._recovery = recovery
        self._slots = asyncio.Semaphore(OPENINGS_MAX)
        self._told: dict[Key, tuple[str, str]] = {}  # topic, what was said
        self._damaged: dict[Key, tuple[LogDamaged, int]] = {}  # and when its directory last changed

    async def open(self, disk: Disk, key: Key, topic: str, config: LogConfig, moves: int = 0) -> Log:
        """Opens or creates, then with so many `moves`. Raises what `TROUBLE` names; after SyncFailed the disk is retired already.

        A damaged log is looked at again only when its directory has changed: somebody put back what was missing, or accepted
        the loss.
        """
        changed_ms = partial(self._changed_ms, disk.directory.partition_path(topic, key[1]))
        if key in self._damaged:
            damage, seen = self._damaged[key]
            if await disk.files.submit(changed_ms) == seen:
                raise damage
            del self._damaged[key]
        try:
            return await self._open(disk, key, topic, config, moves)
        except SyncFailed as error:
            disk.sync.fail(error)
            raise
        except LogDamaged as damage:
            self._damaged[key] = damage, await disk.files.submit(changed_ms)
            raise

    def tell(self, disk: Disk, key: Key, topic: str, error: Exception) -> None:
        """Of what `open` raised; once, however often it is tried again."""
        if self._told.get(key) == (topic, str(error)):
            return
        self._told[key] = topic, str(error)
        path = disk.directory.partition_path(topic, key[1])
        what = {"topic": topic, "partition": key[1], "path": path, "reason": error}
        if isinstance(error, LogDamaged):
            log.error("partition is offline: what was synced is not there", extra=fields(**what, do=what_to_do(path)))
        else:
            log.error("log cannot be opened", extra=fields(**what))

    def forget(self, key: Key) -> str | None:
        """It is not asked for any more. Its topic, if it could not be opened."""
        self._damaged.pop(key, None)
        return self._told.pop(key, ("", ""))[0] or None

    def _changed_ms(self, path: str) -> int:
        try:
            return self._fs.modified_ms(path)
        except OSError:
            return -1

    async def _open(self, disk: Disk, key: Key, topic: str, config: LogConfig, moves: int) -> Log:
        async with self._slots:
            openers = disk.openers_of(key)
            how = await disk.how_to_open(key, topic, config, self._fs, moves)
            attempt = openers.submit(partial(how.open, self._registry, self._clock, read_bytes_max=READ_HERE_BYTES_MAX))
            try:
                opened = await attempt
            except MuchToRead as much:
                total_bytes = much.total_bytes
            else:
                return self._opened(disk, key, topic, opened, opened.scanned_bytes, opened.cut_bytes)
        recovered = await self._recovery.run(how, total_bytes)
        async with self._slots:
            opened = await disk.logs.submit(partial(how.open, self._registry, self._clock))
        read, cut = opened.scanned_bytes, opened.cut_bytes
        if recovered is not None:
            # Without room for a resume point the same bytes are read twice: the log says how many there were.
            read, cut = max(read, recovered.read_bytes), cut + recovered.cut_bytes
        return self._opened(disk, key, topic, opened, read, cut)

    def _opened(self, disk: Disk, key: Key, topic: str, opened: Log, read_bytes: int, cut_bytes: int) -> Log:
        disk.opened(key, topic)
        self._told.pop(key, None)
        if read_bytes:
            log.info("recovered", extra=fields(path=opened.directory, scanned=read_bytes, cut=cut_bytes))
        return opened
