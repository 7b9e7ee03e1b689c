"""Removes the segments that have had their time, a partition after the other, beside the work of the node.

Order of effects: the new start is announced → on disk in the checkpoint → seen by readers → covered by a resume point → the
segments leave the log and their files are renamed → and, when readers had their time, removed. After a crash at any point no
start that anybody saw has gone back, and nothing that was removed comes back. On a full disk the checkpoint has its room already.
"""

import asyncio
import logging
from functools import partial

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.follower import ImageFollower
from libs.commitlog.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.retention import RetentionPolicy
from libs.commitlog.retiring import remove_retired
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted
from services.storage.residents import Residents
from services.storage.sync_scheduler import OWED_PER_ROUND

log = logging.getLogger(__name__)

INTERVAL = "log.retention.check.interval.ms"
FIRST_CHECK_S = 30.0
PARTITIONS_PER_TURN = 20
"""Between so many partitions, requests get their turn."""


class Retention:
    """`run` until cancelled, then `close`. The clock's wall time is only compared, see `libs/commitlog/retention.py`."""

    def __init__(
        self,
        clock: Clock,
        fs: FileSystem,
        follower: ImageFollower,
        disks: Disks,
        residents: Residents,
        checkpoints: Checkpoints,
        *,
        node_id: int,
        file_delete_delay_s: float,
    ) -> None:
        self._clock = clock
        self._fs = fs
        self._follower = follower
        self._disks = disks
        self._residents = residents
        self._checkpoints = checkpoints
        self._node_id = node_id
        self._file_delete_delay_s = file_delete_delay_s
        self._removals: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        wait_s = FIRST_CHECK_S
        while True:
            interval_s = effective_broker_int(self._follower.image, INTERVAL, broker_id=self._node_id) / 1000
            await asyncio.sleep(min(wait_s, interval_s))
            wait_s = interval_s
            try:
                await self.check()
            except Exception:
                log.exception("retention failed")

    async def check(self) -> None:
        """Every partition once. A disk whose sync hangs holds up only itself."""
        await asyncio.gather(*[self._check_disk(disk) for disk in self._disks.usable])

    async def close(self) -> None:
        """What is not removed yet is removed at the next start."""
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)

    async def _check_disk(self, disk: Disk) -> None:
        shorter = []
        for number, (hosted, home) in enumerate(self._residents.open_logs()):
            if number % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
            if home is disk and self._residents.has_open(hosted) and self._announce(hosted):
                shorter.append(hosted)
        if not shorter or not await self._checkpoints.write_log_starts(disk, anyway=True):
            return
        for hosted in shorter:
            if self._residents.has_open(hosted):
                hosted.log.advance_start()
                disk.sync.owe(hosted)
        disk.sync.kick()
        for _ in range(2 + len(shorter) // OWED_PER_ROUND):  # the round that runs may have begun before
            await disk.sync.quiet()
        for hosted in shorter:
            if self._residents.has_open(hosted):
                await self._retire(hosted, disk)

    def _announce(self, hosted: Hosted) -> bool:
        """Whether the log gets shorter."""
        config, found = hosted.config, hosted.log
        policy = RetentionPolicy(config.retention_ms, config.retention_bytes, "delete" in config.cleanup_policy)
        try:
            reasons = found.expired(policy, hosted.high_watermark, self._clock.wall_ms())
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

    async def _retire(self, hosted: Hosted, disk: Disk) -> None:
        retired = hosted.log.retire_segments()
        if retired is None:
            return
        disk.sync.owe(hosted)  # it removes what was saved for those segments
        disk.sync.kick()
        try:
            paths = await disk.files.submit(partial(retired.rename, self._fs))
        except OSError as error:
            # Their partition was deleted meanwhile, or they keep their names until the next start, which removes them.
            log.warning("retired segments not renamed", extra=fields(partition=hosted, reason=error))
            return
        task = asyncio.get_running_loop().create_task(self._remove_later(disk, paths))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove_later(self, disk: Disk, paths: list[str]) -> None:
        await asyncio.sleep(self._file_delete_delay_s)
        try:
            await disk.files.submit(partial(remove_retired, self._fs, paths))
            await disk.files.submit(disk.directory.keep_spare_room)
        except OSError as error:
            log.warning("retired segments stay until the next start", extra=fields(paths=paths[:1], reason=error))
