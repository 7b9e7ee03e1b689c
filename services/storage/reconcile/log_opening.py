"""Opening of this node's logs: many in parallel, those with much to recover in child processes.

The trouble of one partition (a full disk, too many files, a damaged log) does not stop others in its directory. But a sync that
fails during recovery fails the directory, as it does later.
"""

import asyncio
import logging
from functools import partial

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import NO_ROOM, DirectoryDamaged, LogDamaged, RecoveryTooLarge, SyncFailed
from libs.commitlog.partition_log.log import Log
from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.log_burst import LogBurst
from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk
from services.storage.partition.log_files import LogFiles
from services.storage.partition.partition import Key
from services.storage.reconcile.recovery import Recovery

log = logging.getLogger("log")

OPENINGS_MAX = 256
READ_HERE_BYTES_MAX = 8 << 20
"""The limit of bytes read in this process. A start of Python, for a child, costs as much as reading so much."""

NO_ROOM_LINES_S = 60.0
"""The time between two lines about logs that a full directory keeps from opening."""

TROUBLE = (OSError, LogDamaged, DirectoryDamaged)


def repair_hint(path: str) -> str:
    """The advice for a log that lost synced records."""
    look = f"python -m libs.commitlog verify {path}"
    give_up = f"python -m libs.commitlog accept-loss {path}"
    return f"{look}; put back what is missing, then touch {path}; or, if no other replica has it, go on without it: {give_up}"


class LogOpening:
    def __init__(self, files: LogFiles, recovery: Recovery) -> None:
        self._fs, self._registry, self._clock = files
        self._recovery = recovery
        self._slots = asyncio.Semaphore(OPENINGS_MAX)
        self._recovered_lines = LogBurst(log, "recovered", asyncio.get_running_loop())
        self._no_room_lines = LimitedLines(log, NO_ROOM_LINES_S, asyncio.get_running_loop())
        self._reported: dict[Key, tuple[str, str]] = {}  # topic and message
        self._damaged: dict[Key, tuple[LogDamaged, int]] = {}  # the damage, and when the directory last changed

    async def open(self, disk: Disk, key: Key, topic: str, config: LogConfig, moves: int = 0) -> Log:
        """Opens a log, or creates it with so many `moves`. Raises what `TROUBLE` names; after SyncFailed the disk is retired
        already.

        A damaged log is opened again only when its directory has changed: somebody repaired it, or accepted the loss.
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

    def report(self, disk: Disk, key: Key, topic: str, error: Exception) -> None:
        """Logs an error of `open`, once however often it is tried again."""
        if self._reported.get(key) == (topic, str(error)):
            return
        self._reported[key] = topic, str(error)
        path = disk.directory.partition_path(topic, key[1])
        details = {"topic": topic, "partition": key[1], "path": path, "reason": error}
        if isinstance(error, LogDamaged):
            log.error("partition is offline: synced records are missing", extra=fields(**details, way_out=repair_hint(path)))
        elif isinstance(error, OSError) and error.errno in NO_ROOM:
            disk.sync.room.opening_failed()
            # A full disk holds up all partitions that are opened on it.
            details["reason"] = str(error)
            event = "log cannot be opened: its log directory is full"
            self._no_room_lines.write(disk.path, logging.ERROR, event, **details)
        else:
            log.error("log cannot be opened", extra=fields(**details))

    def forget(self, key: Key) -> str | None:
        """Forgets a partition that no image asks for. Returns its topic, if it could not be opened."""
        self._damaged.pop(key, None)
        return self._reported.pop(key, ("", ""))[0] or None

    def _changed_ms(self, path: str) -> int:
        try:
            return self._fs.modified_ms(path)
        except OSError:
            return -1

    async def _open(self, disk: Disk, key: Key, topic: str, config: LogConfig, moves: int) -> Log:
        async with self._slots:
            threads = disk.threads_for(key)
            request = await disk.open_request(key, topic, config, self._fs, moves)
            attempt = threads.submit(partial(request.open, self._registry, self._clock, read_bytes_max=READ_HERE_BYTES_MAX))
            try:
                opened = await attempt
            except RecoveryTooLarge as too_large:
                total_bytes = too_large.total_bytes
            else:
                return await self._opened(disk, key, topic, opened, opened.scanned_bytes, opened.truncated_bytes)
        recovered = await self._recovery.run(request, total_bytes)
        async with self._slots:
            opened = await disk.logs.submit(partial(request.open, self._registry, self._clock))
        read, cut = opened.scanned_bytes, opened.truncated_bytes
        if recovered is not None:
            # Without room for a resume point the same bytes are read twice. The log counts them once.
            read, cut = max(read, recovered.read_bytes), cut + recovered.truncated_bytes
        return await self._opened(disk, key, topic, opened, read, cut)

    async def _opened(self, disk: Disk, key: Key, topic: str, opened: Log, read_bytes: int, truncated_bytes: int) -> Log:
        try:
            await disk.limit_cleaned_offset(key, topic, opened.log_end_offset)
        except OSError:
            opened.close(clean=False)
            raise
        disk.opened(key, topic)
        self._reported.pop(key, None)
        if read_bytes:
            details = {"scanned": read_bytes, "cut": truncated_bytes}
            self._recovered_lines.write(path=opened.directory, **details)
        return opened
