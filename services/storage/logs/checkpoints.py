"""Kafka's offset checkpoints: high watermarks every few seconds, recovery points and log starts less often, and at the stop.

Two of them only save work: logs carry their own resume points, and a high watermark that is behind catches up. Log starts are
authoritative: each is written before it takes effect, so that deleted records do not come back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.checkpoints.offset_checkpoint import Entry, Name
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.telemetry.limited_lines import LimitedLines
from services.storage.disks.disks import Disk, Disks
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Partition
from services.storage.threads.turns import Turns

log = logging.getLogger("log")

LINES_S = 60.0
"""The time between two lines about a checkpoint that a disk does not take, such as a full one."""


class Checkpoints:
    """The checkpoints of all disks. Only changed ones are written."""

    def __init__(self, disks: Disks, open_logs: OpenLogs[Disk]) -> None:
        self._disks = disks
        self._open_logs = open_logs
        self._lines = LimitedLines(log, LINES_S, asyncio.get_running_loop())
        self._writing: dict[tuple[str, str], asyncio.Lock] = {}

    async def write_high_watermarks(self) -> None:
        """Writes high watermarks, as far as they are durable here. A log that ends before its entry has lost records."""
        await self._write(HIGH_WATERMARKS, _durable_high_watermark)

    async def write_high_watermarks_of(self, disk: Disk) -> bool:
        """Writes those of one disk, for a truncation that has lowered its own. False: the disk did not take them."""
        return await self._write_one(disk, HIGH_WATERMARKS, _durable_high_watermark)

    async def write_recovery_points(self) -> None:
        await self._write(RECOVERY_POINTS, _recovery_point)
        for disk in self._disks.usable:
            await self.write_log_starts(disk)

    async def write_log_starts(self, disk: Disk) -> bool:
        """Writes where each log on the disk starts, or is about to. False: the disk did not take it."""
        return await self._write_one(disk, LOG_START_OFFSETS, lambda partition: partition.log.next_start_offset)

    async def write_cleaned_offsets(self, disk: Disk) -> None:
        """Writes cleaned offsets, without those of partitions that have left."""
        for key in [key for key in disk.cleaned_offsets if not disk.holds(key)]:
            del disk.cleaned_offsets[key]
        entries = {(disk.topic_of(key), key[1]): Entry(offset, key[0]) for key, offset in disk.cleaned_offsets.items()}
        await self._replace(disk, CLEANED_OFFSETS, entries)

    async def forget_deleted(self, disk: Disk) -> bool:
        """Makes the checkpoints of a disk name only partitions that are there now. False: the disk did not take them all, and the
        directories of deleted partitions must stay."""
        done = await self.write_high_watermarks_of(disk)
        return await self._write_one(disk, RECOVERY_POINTS, _recovery_point) and done

    async def _write(self, name: str, number: Callable[[Partition], int]) -> None:
        for disk in self._disks.usable:
            await self._write_one(disk, name, number)

    async def _write_one(self, disk: Disk, name: str, number: Callable[[Partition], int]) -> bool:
        # offsets that are gathered earlier are written earlier
        async with self._writing.setdefault((disk.path, name), asyncio.Lock()):
            # A partition here that could not be opened keeps its entries for later.
            entries: dict[Name, Entry] = dict(disk.scanned.lost) if name == HIGH_WATERMARKS else {}
            entries |= {
                (topic, key[1]): Entry(offset, key[0])
                for key, topic in disk.unopened()
                if (offset := disk.scanned.checkpoints[name].get(key)) is not None
            }
            logs = [partition for partition, log_disk in self._open_logs.all() if log_disk is disk]
            numbers: dict[Partition, int] = {}
            turns = Turns()
            for partition in logs:
                await turns.taken()
                numbers[partition] = number(partition)
            # A partition that was deleted or moved meanwhile has taken its entry away.
            here = {partition for partition, log_disk in self._open_logs.all() if log_disk is disk}
            entries |= disk.arriving.get(name, {})
            entries |= {
                (partition.topic, partition.key[1]): Entry(offset, partition.key[0])
                for partition, offset in numbers.items()
                if partition in here
            }
            return await self._replace(disk, name, entries)

    async def _replace(self, disk: Disk, name: str, entries: dict[Name, Entry]) -> bool:
        try:
            changed = await disk.files.submit(partial(disk.directory.write_checkpoint, name, entries))
        except OSError as error:
            key = disk.path, name, error.errno
            self._lines.write(key, logging.WARNING, "checkpoint not written", path=disk.path, name=name, reason=str(error))
            return False
        disk.unstamped |= changed and name == HIGH_WATERMARKS
        return True


def _recovery_point(partition: Partition) -> int:
    return partition.log.recovery_point


def _durable_high_watermark(partition: Partition) -> int:
    return min(partition.high_watermark, partition.log.durable_offset)
