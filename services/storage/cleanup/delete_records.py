"""DeleteRecords: a log starts at a given offset, or at the high watermark.

A leader that was replaced unawares refuses nothing and deletes nothing: leadership is confirmed first. It would take an offset
that its successor has committed for one beyond the end, or delete up to an old high watermark.

The answer waits until the new start is on the disk of every member of the maximal ISR, and readers see it
(`services/storage/logs/log_start_offsets.py`, `services/storage/replication/leader/replicated_log_starts.py`). The next leader
therefore starts there too. A caller whose timeout ends first gets REQUEST_TIMED_OUT, and the records are deleted all the same.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from libs.commitlog.model.errors import OffsetOutOfRange
from libs.rpc.contracts.storage import DeletedRecords, DeleteRecords, DeleteRecordsPartition, DeleteRecordsReply
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.disks.disks import Disk, Disks
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.replication.leader.replicated_log_starts import wait_for_followers

log = logging.getLogger("log")

HIGH_WATERMARK = -1
Confirmed = Callable[[Collection[Partition]], Coroutine[Any, Any, Mapping[Key, Refusal]]]
"""Confirms that this node leads the partitions; returns the refusals of the others."""

TIMEOUT_MS_MIN = 1000
"""The least timeout, since a disk needs a moment. As in Kafka, a timeout of 0 succeeds if no follower is awaited."""


class DeleteRecordsRequests:
    def __init__(
        self,
        partitions: PartitionTable,
        disks: Disks,
        log_starts: LogStartOffsets,
        confirmed: Confirmed,
        ends: AcknowledgedEnds,
    ) -> None:
        self._partitions = partitions
        self._ends = ends
        self._disks = disks
        self._log_starts = log_starts
        self._confirmed = confirmed
        self._running: set[asyncio.Task[bool]] = set()

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(DeleteRecords, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        return self._delete(call, request)

    async def _delete(self, call: Call, request: DeleteRecords) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + request.timeout_ms / 1000
        await self._ends.shown([(wanted.topic_id, wanted.partition) for wanted in request.partitions])
        led = [self._partitions.serving((wanted.topic_id, wanted.partition)) for wanted in request.partitions]
        refusals = await self._confirmed({each for each in led if isinstance(each, Partition)})
        announced = [self._announce(wanted, refusals) for wanted in request.partitions]
        by_disk: dict[Disk, list[Partition]] = {}
        for announcement in announced:
            if isinstance(announcement, _Announced):
                by_disk.setdefault(announcement.disk, []).append(announcement.partition)
        advancing = {disk: asyncio.create_task(self._advance(shortened, disk)) for disk, shortened in by_disk.items()}
        for task in advancing.values():
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if advancing:
            await asyncio.wait(advancing.values(), timeout=max(request.timeout_ms, TIMEOUT_MS_MIN) / 1000)
            await self._wait_for_followers(
                [announcement for announcement in announced if isinstance(announcement, _Announced)], due_at
            )
        answers = [
            _answer(announcement, advancing[announcement.disk])
            if isinstance(announcement, _Announced)
            else DeletedRecords(announcement)
            for announcement in announced
        ]
        call.reply(DeleteRecordsReply(tuple(answers)))

    async def _wait_for_followers(self, announced: Sequence["_Announced"], due_at: float) -> None:
        """Waits for followers until the deadline. As in Kafka, a timeout of 0 waits for none."""
        try:
            async with asyncio.timeout_at(due_at):
                for partition, _, offset in announced:
                    await wait_for_followers(partition, min(offset, partition.log_start_offset))
        except TimeoutError:
            return

    def _announce(self, wanted: DeleteRecordsPartition, refusals: Mapping[Key, Refusal]) -> "_Announced | int":
        """The log and its new start, or an error."""
        key = wanted.topic_id, wanted.partition
        partition = refusals.get(key) or self._partitions.serving(key)
        if isinstance(partition, Refusal):
            return partition.error
        policy = partition.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            return int(ErrorCode.POLICY_VIOLATION)
        offset = partition.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            return int(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            partition.log.delete_before(offset, partition.high_watermark)
        except OffsetOutOfRange:
            if partition.is_behind and offset <= partition.log_end_offset:  # an earlier leader may have committed it
                return int(ErrorCode.OFFSET_NOT_AVAILABLE)
            return int(ErrorCode.OFFSET_OUT_OF_RANGE)
        return _Announced(partition, self._disks.of(partition.sync), offset)

    async def _advance(self, shortened: Sequence[Partition], disk: Disk) -> bool:
        due = [partition for partition in shortened if partition.log.next_start_offset > partition.log.log_start_offset]
        if not due:
            return True
        if not await self._log_starts.advance(due, disk):
            return False
        for partition in due:
            log.info("records deleted", extra=fields(partition=partition, log_start=partition.log_start_offset))
        self._log_starts.retire_soon(due, disk)
        return True


class _Announced(NamedTuple):
    partition: Partition
    disk: Disk
    offset: int


def _answer(announced: _Announced, advancing: "asyncio.Task[bool]") -> DeletedRecords:
    replica = announced.partition.replica
    start = announced.partition.log_start_offset
    low_watermark = replica.least_start(start)
    if not advancing.done():
        return DeletedRecords(int(ErrorCode.REQUEST_TIMED_OUT), low_watermark)
    if not advancing.result():
        return DeletedRecords(int(ErrorCode.KAFKA_STORAGE_ERROR))
    if start < announced.offset or not replica.leading:  # the partition left, or has another leader, which may not know the start
        return DeletedRecords(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    if low_watermark < announced.offset:
        return DeletedRecords(int(ErrorCode.REQUEST_TIMED_OUT), low_watermark)
    return DeletedRecords(0, low_watermark)
