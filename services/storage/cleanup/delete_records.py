"""DeleteRecords: the log is to start at an offset, or at the high watermark (kafka-facts section 7).

Answered when the new start is on the disk of every member of the maximal ISR and readers see it, see
`services/storage/shortening.py` and `services/storage/held_starts.py`: whoever leads next starts there too. A caller whose time
is up first hears 7 REQUEST_TIMED_OUT, and what it asked for happens all the same.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from libs.commitlog.errors import OffsetOutOfRange
from libs.rpc.call import Call
from libs.rpc.contracts.storage import DeletedRecords, DeleteRecords, DeleteRecordsPartition, DeleteRecordsReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.disks import Disk, Disks
from services.storage.held_starts import held_by_all
from services.storage.hosted import Hosted
from services.storage.partitions import Partitions
from services.storage.shortening import Shortening

log = logging.getLogger(__name__)

HIGH_WATERMARK = -1
PATIENCE_MS_MIN = 1000
"""A disk needs a moment. Kafka answers a timeout of 0 with success when nobody else has to do anything, and so do we."""


class RecordDeletion:
    def __init__(self, partitions: Partitions, disks: Disks, shortening: Shortening) -> None:
        self._partitions = partitions
        self._disks = disks
        self._shortening = shortening
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
        announced = [self._announce(wanted) for wanted in request.partitions]
        by_disk: dict[Disk, list[Hosted]] = {}
        for found in announced:
            if isinstance(found, _Announced):
                by_disk.setdefault(found.disk, []).append(found.hosted)
        advancing = {disk: asyncio.create_task(self._advance(shorter, disk)) for disk, shorter in by_disk.items()}
        for task in advancing.values():
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if advancing:
            await asyncio.wait(advancing.values(), timeout=max(request.timeout_ms, PATIENCE_MS_MIN) / 1000)
            await self._wait_for_followers([found for found in announced if isinstance(found, _Announced)], due_at)
        answers = [
            _answer(found, advancing[found.disk]) if isinstance(found, _Announced) else DeletedRecords(found)
            for found in announced
        ]
        call.reply(DeleteRecordsReply(tuple(answers)))

    async def _wait_for_followers(self, announced: Sequence["_Announced"], due_at: float) -> None:
        """As in Kafka, a timeout of 0 waits for none of them."""
        try:
            async with asyncio.timeout_at(due_at):
                for hosted, _, offset in announced:
                    await held_by_all(hosted, min(offset, hosted.log_start_offset))
        except TimeoutError:
            return

    def _announce(self, wanted: DeleteRecordsPartition) -> "_Announced | int":
        """Which log will start where, or why not."""
        found = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(found, Refusal):
            return found.error
        policy = found.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            return int(ErrorCode.POLICY_VIOLATION)
        offset = found.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            return int(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            found.log.delete_before(offset, found.high_watermark)
        except OffsetOutOfRange:
            return int(ErrorCode.OFFSET_OUT_OF_RANGE)
        return _Announced(found, self._disks.of(found.sync), offset)

    async def _advance(self, shorter: Sequence[Hosted], disk: Disk) -> bool:
        due = [hosted for hosted in shorter if hosted.log.next_start_offset > hosted.log.log_start_offset]
        if not due:
            return True
        if not await self._shortening.advance(due, disk):
            return False
        for hosted in due:
            log.info("records deleted", extra=fields(partition=hosted, log_start=hosted.log_start_offset))
        self._shortening.retire_soon(due, disk)
        return True


class _Announced(NamedTuple):
    hosted: Hosted
    disk: Disk
    offset: int


def _answer(announced: _Announced, advancing: "asyncio.Task[bool]") -> DeletedRecords:
    replica = announced.hosted.replica
    start = announced.hosted.log_start_offset
    low_watermark = replica.least_start(start)
    if not advancing.done():
        return DeletedRecords(int(ErrorCode.REQUEST_TIMED_OUT), low_watermark)
    if not advancing.result():
        return DeletedRecords(int(ErrorCode.KAFKA_STORAGE_ERROR))
    if start < announced.offset or not replica.leading:  # it left, or somebody else leads it, who may not have heard of it
        return DeletedRecords(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    if low_watermark < announced.offset:
        return DeletedRecords(int(ErrorCode.REQUEST_TIMED_OUT), low_watermark)
    return DeletedRecords(0, low_watermark)
