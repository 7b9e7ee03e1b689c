"""Kafka's offset checkpoints: high watermarks every few seconds, recovery points and log starts less often, and at the stop.

Two of them only save work: logs carry their own resume points, and a high watermark that is behind catches up. Log starts are
authoritative: each is written before it takes effect, so that deleted records do not come back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.telemetry.limited_lines import LimitedLines
from services.storage.disks.disks import Disk, Disks
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.threads.turns import Turns

log = logging.getLogger(__name__)

LINES_S = 60.0
"""The time between two lines about a checkpoint that a disk does not take, such as a full one."""

Offsets = dict[tuple[str, int], int]


class Checkpoints:
    """The checkpoints of all disks. Only changed ones are written."""

    def __init__(self, disks: Disks, open_logs: OpenLogs[Disk]) -> None:
        self._disks = disks
        self._open_logs = open_logs
        self._written: dict[tuple[str, str], Offsets] = {}
        self._lines = LimitedLines(log, LINES_S, asyncio.get_running_loop())
        self._writing: dict[tuple[str, str], asyncio.Lock] = {}

    async def write_high_watermarks(self) -> None:
        """Writes high watermarks, as far as they are durable here. A log that ends before its entry has lost records."""
        await self._write(HIGH_WATERMARKS, _durable_high_watermark)

    async def write_high_watermarks_of(self, disk: Disk) -> bool:
        """Writes those of one disk, for a truncation that has lowered its own. False: the disk did not take them."""
        return await self._write_one(disk, HIGH_WATERMARKS, _durable_high_watermark)

    async def write_recovery_points(self) -> None:
        await self._write(RECOVERY_POINTS, lambda partition: partition.log.recovery_point)
        for disk in self._disks.usable:
            await self.write_log_starts(disk)

    async def write_log_starts(self, disk: Disk, *, anyway: bool = False) -> bool:
        """Writes where each log on the disk starts, or is about to. False: the disk did not take it.

        `anyway`: also if nothing changed, for callers that rely on it. The deletion of a partition removes its entry without this
        class.
        """
        if anyway:
            self._written.pop((disk.path, LOG_START_OFFSETS), None)
        return await self._write_one(disk, LOG_START_OFFSETS, lambda partition: partition.log.next_start_offset)

    async def write_cleaned_offsets(self, disk: Disk) -> None:
        """Writes cleaner offsets, without those of partitions that have left."""
        if disk.cleaned_offsets or (disk.path, CLEANED_OFFSETS) in self._written:
            await self._replace(disk, CLEANED_OFFSETS, dict(disk.cleaned_offsets))

    async def _write(self, name: str, number: Callable[[Partition], int]) -> None:
        for disk in self._disks.usable:
            await self._write_one(disk, name, number)

    async def _write_one(self, disk: Disk, name: str, number: Callable[[Partition], int]) -> bool:
        # offsets that are gathered earlier are written earlier
        async with self._writing.setdefault((disk.path, name), asyncio.Lock()):
            # A partition here that could not be opened keeps its entries for later.
            offsets = {
                entry: offset
                for entry in [(topic, key[1]) for key, topic in disk.unopened()]
                if (offset := disk.scanned.checkpoints[name].get(entry)) is not None
            }
            if name == HIGH_WATERMARKS:
                offsets.update(disk.scanned.lost)
            logs = [partition for partition, log_disk in self._open_logs.all() if log_disk is disk]
            numbers: dict[Partition, int] = {}
            turns = Turns()
            for partition in logs:
                await turns.taken()
                numbers[partition] = number(partition)
            # A partition that was deleted or moved meanwhile has taken its entry away.
            here = {partition for partition, log_disk in self._open_logs.all() if log_disk is disk}
            offsets |= disk.arriving.get(name, {})
            offsets |= {(partition.topic, partition.key[1]): at for partition, at in numbers.items() if partition in here}
            return await self._replace(disk, name, offsets)

    async def _replace(self, disk: Disk, name: str, offsets: Offsets) -> bool:
        if self._written.get((disk.path, name)) == offsets:
            return True
        try:
            await disk.files.submit(partial(disk.directory.write_checkpoint, name, offsets))
        except OSError as error:
            key = disk.path, name, error.errno
            self._lines.write(key, logging.WARNING, "checkpoint not written", path=disk.path, name=name, reason=str(error))
            return False
        self._written[disk.path, name] = offsets
        disk.unstamped |= name == HIGH_WATERMARKS
        return True


def _durable_high_watermark(partition: Partition) -> int:
    return min(partition.high_watermark, partition.log.durable_offset)
