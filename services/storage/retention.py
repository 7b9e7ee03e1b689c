"""Finds the segments that have had their time, a partition after the other, beside the work of the node.

How they go, and in which order, is in `services/storage/shortening.py`.
"""

import asyncio
import logging
from collections.abc import Mapping

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.follower import ImageFollower
from libs.commitlog.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.retention import RetentionPolicy
from libs.telemetry.logs import fields
from services.storage.deletion_time import DeletionTime
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted
from services.storage.residents import Residents
from services.storage.shortening import Shortening
from services.storage.turns import Turns

log = logging.getLogger(__name__)

INTERVAL = "log.retention.check.interval.ms"
FIRST_CHECK_S = 30.0


class Retention:
    """`run` until cancelled."""

    def __init__(
        self,
        time: DeletionTime,
        follower: ImageFollower,
        disks: Disks,
        residents: Residents,
        shortening: Shortening,
        *,
        node_id: int,
        static: Mapping[str, str],
    ) -> None:
        self._time = time
        self._follower = follower
        self._disks = disks
        self._residents = residents
        self._shortening = shortening
        self._node_id = node_id
        self._static = static

    async def run(self) -> None:
        wait_s = FIRST_CHECK_S
        while True:
            image = self._follower.image
            interval_s = effective_broker_int(image, INTERVAL, broker_id=self._node_id, static=self._static) / 1000
            await asyncio.sleep(min(wait_s, interval_s))
            wait_s = interval_s
            try:
                await self.check()
            except Exception:
                log.exception("retention failed")

    async def check(self) -> None:
        """Every partition once. A disk whose sync hangs holds up only itself."""
        await asyncio.gather(*[self._check_disk(disk) for disk in self._disks.usable])

    async def _check_disk(self, disk: Disk) -> None:
        shorter = []
        turns = Turns()
        for hosted, home in self._residents.open_logs():
            await turns.taken()
            if home is disk and self._residents.has_open(hosted) and self._announce(hosted):
                shorter.append(hosted)
        if shorter and await self._shortening.advance(shorter, disk):
            await self._shortening.retire(shorter, disk)

    def _announce(self, hosted: Hosted) -> bool:
        """Whether the log gets shorter."""
        config, found = hosted.config, hosted.log
        policy = RetentionPolicy(config.retention_ms, config.retention_bytes, "delete" in config.cleanup_policy)
        try:
            reasons = found.expired(policy, hosted.high_watermark, self._time.now_ms())
            if not reasons:
                return False
            if len(reasons) == len(found.segments):
                found.roll()
            found.delete_before(found.segments[len(reasons)].base_offset, hosted.high_watermark)
        except (OSError, LogDamaged, OffsetOutOfRange) as error:
            log.error("retention of a partition failed", extra=fields(partition=hosted, reason=error))
            return False
        if found.next_start_offset > found.log_start_offset:
            log.info(
                "retention",
                extra=fields(
                    partition=hosted,
                    segments=len(reasons),
                    reasons=",".join(sorted({reason.value for reason in reasons})),
                    log_start=found.next_start_offset,
                ),
            )
        return True
