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

OPENINGS_MAX = 32
READ_HERE_BYTES_MAX = 8 << 20
"""A log with more to read than this is worth a process: a start of Python costs as much as reading so much."""

TROUBLE = (OSError, LogDamaged, DirectoryDamaged)


class Openings:
    def __init__(self, fs: FileSystem, registry: FileRegistry, clock: Clock, recovery: Recovery) -> None:
        self._fs, self._registry, self._clock = fs, registry, clock
        self._recovery = recovery
        self._slots = asyncio.Semaphore(OPENINGS_MAX)

    async def open(self, disk: Disk, key: Key, topic: str, config: LogConfig) -> Log:
        """Opens or creates. Raises what `TROUBLE` names; after SyncFailed the disk is retired already."""
        try:
            return await self._open(disk, key, topic, config)
        except SyncFailed as error:
            disk.sync.fail(error)
            raise

    async def _open(self, disk: Disk, key: Key, topic: str, config: LogConfig) -> Log:
        async with self._slots:
            how = await disk.how_to_open(key, topic, config, self._fs)
            attempt = disk.logs.submit(partial(how.open, self._registry, self._clock, read_bytes_max=READ_HERE_BYTES_MAX))
            try:
                opened = await attempt
            except MuchToRead as much:
                total_bytes = much.total_bytes
            else:
                return self._opened(disk, key, opened, opened.scanned_bytes, opened.cut_bytes)
        recovered = await self._recovery.run(how, total_bytes)
        async with self._slots:
            opened = await disk.logs.submit(partial(how.open, self._registry, self._clock))
        read, cut = opened.scanned_bytes, opened.cut_bytes
        if recovered is not None:
            read, cut = read + recovered.read_bytes, cut + recovered.cut_bytes
        return self._opened(disk, key, opened, read, cut)

    def _opened(self, disk: Disk, key: Key, opened: Log, read_bytes: int, cut_bytes: int) -> Log:
        disk.hosted.add(key)
        if read_bytes:
            log.info("recovered", extra=fields(path=opened.directory, scanned=read_bytes, cut=cut_bytes))
        return opened
