"""Kafka's offset checkpoints: high watermarks every few seconds, recovery points and log starts less often, and at the stop.

Two of them save work and are never the truth: logs carry their own resume points, and a high watermark that is behind catches up.
Log starts are the truth: one is written before it takes effect, so that what was deleted does not come back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.telemetry.logs import fields
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted
from services.storage.residents import Residents
from services.storage.turns import Turns

log = logging.getLogger(__name__)

Offsets = dict[tuple[str, int], int]


class Checkpoints:
    """Writes only what changed since it last wrote."""

    def __init__(self, disks: Disks, residents: Residents) -> None:
        self._disks = disks
        self._residents = residents
        self._written: dict[tuple[str, str], Offsets] = {}
        self._writing: dict[tuple[str, str], asyncio.Lock] = {}

    async def write_high_watermarks(self) -> None:
        """As far as they are durable here: a log that ends before its entry has lost something."""
        await self._write(HIGH_WATERMARKS, _durable_high_watermark)

    async def write_high_watermarks_of(self, disk: Disk) -> bool:
        """Whether the disk has them now: whoever cuts a log has lowered its own before."""
        return await self._write_one(disk, HIGH_WATERMARKS, _durable_high_watermark)

    async def write_recovery_points(self) -> None:
        await self._write(RECOVERY_POINTS, lambda hosted: hosted.log.recovery_point)
        for disk in self._disks.usable:
            await self.write_log_starts(disk)

    async def write_log_starts(self, disk: Disk, *, anyway: bool = False) -> bool:
        """Whether it is on the disk now where each log there starts, or is about to. `anyway`: written even if nothing changed,
        for who relies on it (burying a partition takes its entry away behind our back)."""
        if anyway:
            self._written.pop((disk.path, LOG_START_OFFSETS), None)
        return await self._write_one(disk, LOG_START_OFFSETS, lambda hosted: hosted.log.next_start_offset)

    async def write_cleaned_offsets(self, disk: Disk) -> None:
        """Those of partitions that are gone are forgotten."""
        if disk.cleaned_offsets or (disk.path, CLEANED_OFFSETS) in self._written:
            await self._replace(disk, CLEANED_OFFSETS, dict(disk.cleaned_offsets))

    async def _write(self, name: str, number: Callable[[Hosted], int]) -> None:
        for disk in self._disks.usable:
            await self._write_one(disk, name, number)

    async def _write_one(self, disk: Disk, name: str, number: Callable[[Hosted], int]) -> bool:
        async with self._writing.setdefault((disk.path, name), asyncio.Lock()):  # what was gathered earlier is written earlier
            # What is here and could not be opened keeps its entries, for when it can.
            offsets = {
                partition: offset
                for partition in [(topic, key[1]) for key, topic in disk.unopened()]
                if (offset := disk.scanned.checkpoints[name].get(partition)) is not None
            }
            if name == HIGH_WATERMARKS:
                offsets.update(disk.scanned.gone)
            logs = [hosted for hosted, home in self._residents.open_logs() if home is disk]
            numbers: dict[Hosted, int] = {}
            turns = Turns()
            for hosted in logs:
                await turns.taken()
                numbers[hosted] = number(hosted)
            # Who was buried meanwhile, or moved to another directory, took its entry away.
            here = {hosted for hosted, home in self._residents.open_logs() if home is disk}
            offsets |= disk.arriving.get(name, {})
            offsets |= {(hosted.topic, hosted.key[1]): at for hosted, at in numbers.items() if hosted in here}
            return await self._replace(disk, name, offsets)

    async def _replace(self, disk: Disk, name: str, offsets: Offsets) -> bool:
        if self._written.get((disk.path, name)) == offsets:
            return True
        try:
            await disk.files.submit(partial(disk.directory.write_checkpoint, name, offsets))
        except OSError as error:
            log.warning("checkpoint not written", extra=fields(path=disk.path, name=name, reason=error))
            return False
        self._written[disk.path, name] = offsets
        return True


def _durable_high_watermark(hosted: Hosted) -> int:
    return min(hosted.high_watermark, hosted.log.durable_offset)
