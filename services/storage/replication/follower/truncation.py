"""Truncation: a follower's log is cut where it diverged from its leader's, or begins again elsewhere.

Order of effects: nobody is served from the partition → its high watermark and its cleaned offset are lowered to the cut, in
memory and then in the checkpoints on the disk (so is the log start, if the log begins again) → no sync round holds it → it is
cut, in a thread → it is served again. A crash at any point leaves a log that opens: no checkpoint names offsets beyond its end.
"""

import logging
from collections.abc import Callable
from functools import partial

from libs.commitlog.model.errors import LogWriteError
from libs.telemetry.logs import fields
from services.storage.core.replication.follower.following import Event, Operation, Skip, State, Truncate, TruncateFully
from services.storage.logs.checkpoints import Checkpoints
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.replication.follower.followed_partition import FollowedPartition

log = logging.getLogger("replication")

ROUNDS_MAX = 3
"""Sync rounds to wait for: the running one may have begun before."""
DONE = {Truncate: "log cut", TruncateFully: "log begun anew", Skip: "log goes on behind a gap"}


class Truncation:
    def __init__(self, partitions: PartitionTable, checkpoints: Checkpoints) -> None:
        self._partitions = partitions
        self._checkpoints = checkpoints

    async def perform(self, followed: FollowedPartition, operation: Operation) -> bool:
        """Performs an operation on the log. The caller holds the partition in `TRUNCATING`, and gives it no role until the end.

        False: the disk did not take the checkpoint that must come first, and nothing was cut.
        """
        partition, disk = followed.partition, followed.disk
        by_key = self._partitions.by_key
        if by_key.get(partition.key) is partition:
            del by_key[partition.key]
        before = partition.log.log_end_offset
        try:
            if not await self._prepare(followed, operation):
                return False
            disk.sync.forget(partition)
            await disk.sync.wait_for_round()
            await disk.logs.submit(_operation(followed, operation))
        except LogWriteError as error:
            if followed.state is State.TRUNCATING:
                followed.happened(Event.FAILED)
            disk.sync.fail(error)
            return False
        finally:
            # In any other state the reconciler has taken the partition away, and decides after the end of this.
            if followed.state in (State.TRUNCATING, State.OFFLINE):
                by_key[partition.key] = partition
        end = partition.log.log_end_offset
        if isinstance(operation, Truncate):
            partition.replica.truncated_to(end)
        elif isinstance(operation, TruncateFully):
            partition.replica.truncated_fully(partition.log.log_start_offset, end)
        else:
            partition.replica.copied(end, -1)
        partition.next_offset = end
        log.info(DONE[type(operation)], extra=_log_fields(followed, before))
        disk.sync.request_round(partition)
        disk.sync.start_round()
        return True

    async def _prepare(self, followed: FollowedPartition, operation: Operation) -> bool:
        partition, disk = followed.partition, followed.disk
        if isinstance(operation, Skip):
            return await self._make_durable(followed)
        if isinstance(operation, Truncate):
            _lower_high_watermark(partition, operation.offset)
            return await self._checkpoints.write_high_watermarks_of(disk) and await _limit_cleaned_offset(
                followed, operation.offset
            )
        # A crash then leaves a log that ends at or after its high watermark, or before its start, where it begins again.
        lowest = min(operation.base_offset, partition.log.log_start_offset)
        _lower_high_watermark(partition, lowest)
        if not await self._checkpoints.write_high_watermarks_of(disk):
            return False
        partition.log.next_start_offset = operation.start_offset
        return await self._checkpoints.write_log_starts(disk) and await _limit_cleaned_offset(followed, operation.base_offset)

    async def _make_durable(self, followed: FollowedPartition) -> bool:
        """Makes the log durable before a gap: after a crash, nobody would notice that records before the gap are missing."""
        partition, sync = followed.partition, followed.disk.sync
        for _ in range(ROUNDS_MAX):
            if partition.log.durable_offset >= partition.log.log_end_offset or sync.failed:
                break
            sync.request_round(partition)
            sync.start_round()
            await sync.wait_for_round()
        return partition.log.durable_offset >= partition.log.log_end_offset


def _lower_high_watermark(partition: Partition, high_watermark: int) -> None:
    partition.replica.high_watermark = min(partition.replica.high_watermark, high_watermark)


async def _limit_cleaned_offset(followed: FollowedPartition, end_offset: int) -> bool:
    """False: the disk did not take it."""
    partition, disk = followed.partition, followed.disk
    partition.log.truncated_to = min(partition.log.truncated_to, end_offset)  # for a compaction that ends before the cut
    try:
        await disk.limit_cleaned_offset(partition.key, partition.topic, end_offset)
    except OSError as error:
        log.warning("cleaned offset not lowered, nothing is cut", extra=fields(partition=partition, reason=error))
        return False
    return True


def _operation(followed: FollowedPartition, operation: Operation) -> Callable[[], object]:
    partition_log = followed.partition.log
    if isinstance(operation, Truncate):
        return partial(partition_log.truncate_to, operation.offset)
    if isinstance(operation, Skip):
        return partial(partition_log.skip_to, operation.offset)
    return partial(partition_log.begin_anew, operation.base_offset, operation.start_offset)


def _log_fields(followed: FollowedPartition, before: int) -> dict[str, object]:
    partition_log = followed.partition.log
    return fields(
        partition=followed.partition,
        leader=followed.leader,
        leader_epoch=followed.leader_epoch,
        log_start=partition_log.log_start_offset,
        log_end=partition_log.log_end_offset,
        log_end_before=before,
    )
