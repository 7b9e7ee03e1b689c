"""Cuts the log of a follower where it parted from its leader's, or begins it anew.

Order of effects: the partition is answered by nobody any more → its high watermark is no higher than the cut, in memory and then
in the checkpoint on the disk (and where it is to start, if it begins anew) → no sync round holds it → it is cut, in a thread →
it is answered again. A crash at any point leaves a log that opens: no checkpoint speaks of offsets beyond its end.
"""

import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.errors import LogWriteError
from libs.telemetry.logs import fields
from services.storage.checkpoints import Checkpoints
from services.storage.core.following import BeginAnew, Event, Operation, Skip, State, Truncate
from services.storage.following.followed import Followed
from services.storage.hosted import Hosted
from services.storage.partitions import Partitions

log = logging.getLogger(__name__)

ROUNDS_MAX = 3
"""Sync rounds to wait for: the one that runs may have begun before."""
DONE = {Truncate: "log cut", BeginAnew: "log begun anew", Skip: "log goes on behind a gap"}


class Surgery:
    def __init__(self, partitions: Partitions, checkpoints: Checkpoints) -> None:
        self._partitions = partitions
        self._checkpoints = checkpoints

    async def perform(self, followed: Followed, operation: Operation) -> bool:
        """The caller sees to it that it is `CUTTING`, and that nobody follows or leads it again before this returns.

        False: the disk did not take what must be on it first; nothing was cut.
        """
        hosted, disk = followed.hosted, followed.disk
        by_key = self._partitions.by_key
        if by_key.get(hosted.key) is hosted:
            del by_key[hosted.key]
        before = hosted.log.log_end_offset
        try:
            if not await self._prepare(followed, operation):
                return False
            disk.sync.forget(hosted)
            await disk.sync.quiet()
            await disk.logs.submit(_cut(followed, operation))
        except LogWriteError as error:
            if followed.state is State.CUTTING:
                followed.happened(Event.BROKEN)
            disk.sync.fail(error)
            return False
        finally:
            # Else whoever took it away decides, once this has returned, what becomes of it.
            if followed.state in (State.CUTTING, State.OFFLINE):
                by_key[hosted.key] = hosted
        end = hosted.log.log_end_offset
        if isinstance(operation, Truncate):
            hosted.replica.cut(end)
        elif isinstance(operation, BeginAnew):
            hosted.replica.begun_anew(hosted.log.log_start_offset, end)
        else:
            hosted.replica.copied(end, -1)
        hosted.next_offset = end
        log.info(DONE[type(operation)], extra=_told(followed, before))
        disk.sync.owe(hosted)
        disk.sync.kick()
        return True

    async def _prepare(self, followed: Followed, operation: Operation) -> bool:
        hosted, disk = followed.hosted, followed.disk
        if isinstance(operation, Skip):
            return await self._make_durable(followed)
        if isinstance(operation, Truncate):
            _lower(hosted, operation.offset)
            return await self._checkpoints.write_high_watermarks_of(disk)
        # Whatever a crash leaves of it then ends at or after its high watermark, or before its start, and is begun anew there.
        lowest = min(operation.base_offset, hosted.log.log_start_offset)
        _lower(hosted, lowest)
        if not await self._checkpoints.write_high_watermarks_of(disk):
            return False
        hosted.log.next_start_offset = operation.start_offset
        return await self._checkpoints.write_log_starts(disk, anyway=True)

    async def _make_durable(self, followed: Followed) -> bool:
        """Where gaps are legal, nobody would notice that a crash took the end of what comes before one."""
        hosted, sync = followed.hosted, followed.disk.sync
        for _ in range(ROUNDS_MAX):
            if hosted.log.durable_offset >= hosted.log.log_end_offset or sync.failed:
                break
            sync.owe(hosted)
            sync.kick()
            await sync.quiet()
        return hosted.log.durable_offset >= hosted.log.log_end_offset


def _lower(hosted: Hosted, high_watermark: int) -> None:
    hosted.replica.high_watermark = min(hosted.replica.high_watermark, high_watermark)


def _cut(followed: Followed, operation: Operation) -> Callable[[], object]:
    found = followed.hosted.log
    if isinstance(operation, Truncate):
        return partial(found.truncate_to, operation.offset)
    if isinstance(operation, Skip):
        return partial(found.skip_to, operation.offset)
    return partial(found.begin_anew, operation.base_offset, operation.start_offset)


def _told(followed: Followed, before: int) -> dict[str, object]:
    found = followed.hosted.log
    return fields(
        partition=followed.hosted,
        leader=followed.leader,
        leader_epoch=followed.leader_epoch,
        log_start=found.log_start_offset,
        log_end=found.log_end_offset,
        log_end_before=before,
    )
