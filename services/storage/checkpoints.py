"""Kafka's offset checkpoints: high watermarks every few seconds, recovery points and log starts less often, and at the stop.

They save work and are never the truth: logs carry their own resume points, and a high watermark that is behind catches up.
"""

import logging
from collections.abc import Callable

from libs.commitlog.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.telemetry.logs import fields
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted
from services.storage.residents import Residents

log = logging.getLogger(__name__)

Offsets = dict[tuple[str, int], int]


class Checkpoints:
    """Writes only what changed since it last wrote."""

    def __init__(self, disks: Disks, residents: Residents) -> None:
        self._disks = disks
        self._residents = residents
        self._written: dict[tuple[str, str], Offsets] = {}

    async def write_high_watermarks(self) -> None:
        await self._write(HIGH_WATERMARKS, lambda hosted: hosted.high_watermark)

    async def write_recovery_points(self) -> None:
        await self._write(RECOVERY_POINTS, lambda hosted: hosted.log.recovery_point)
        await self._write(LOG_START_OFFSETS, lambda hosted: hosted.log.log_start_offset)

    async def _write(self, name: str, number: Callable[[Hosted], int]) -> None:
        for disk in self._disks.usable:
            offsets = {
                (hosted.topic, hosted.key[1]): number(hosted) for hosted, home in self._residents.open_logs() if home is disk
            }
            if self._written.get((disk.path, name)) == offsets:
                continue
            try:
                await disk.files.submit(lambda disk=disk, offsets=offsets: _write_one(disk, name, offsets))  # type: ignore[misc]
            except OSError as error:
                log.warning("checkpoint not written", extra=fields(path=disk.path, name=name, reason=error))
            else:
                self._written[disk.path, name] = offsets


def _write_one(disk: Disk, name: str, offsets: Offsets) -> None:
    disk.directory.write_checkpoint(name, offsets)
