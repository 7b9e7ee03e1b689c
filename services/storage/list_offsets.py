"""ListOffsets: from a timestamp, or one of Kafka's special ones, to an offset (kafka-facts section 8)."""

import logging

from libs.commitlog.errors import LogDamaged
from libs.rpc.call import Call
from libs.rpc.contracts.storage import ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal, refuse_client_epoch
from services.storage.hosted import Hosted
from services.storage.partitions import Partitions
from services.storage.reading import READ_COMMITTED

log = logging.getLogger(__name__)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)

NOT_FOUND = ListedOffset(0)


class OffsetListing:
    """Answers from the indexes and, for a timestamp, the few batches around it. Replication is not there yet, so a leader has
    committed everything that an earlier leader committed: 78 OFFSET_NOT_AVAILABLE cannot arise."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(ListOffsets, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        committed = request.isolation == READ_COMMITTED
        call.reply(ListOffsetsReply(tuple([self._answer(wanted, committed=committed) for wanted in request.partitions])))

    def _answer(self, wanted: ListOffsetsPartition, *, committed: bool) -> ListedOffset:
        found = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(found, Refusal):
            return ListedOffset(found.error)
        if error := refuse_client_epoch(wanted.current_leader_epoch, found.leader_epoch):
            return ListedOffset(error)
        try:
            return _find(found, wanted.timestamp, found.last_stable_offset if committed else found.high_watermark)
        except (LogDamaged, OSError) as error:
            log.error("timestamp lookup failed", extra=fields(partition=found, timestamp=wanted.timestamp, reason=error))
            return ListedOffset(int(ErrorCode.KAFKA_STORAGE_ERROR))


def _find(hosted: Hosted, timestamp: int, end: int) -> ListedOffset:
    """`end`: the first offset that the caller may not see. What lies at or past it counts as not found."""
    if timestamp == LATEST:
        return ListedOffset(0, end, -1, hosted.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # nothing is tiered: the earliest is local
        start = hosted.log_start_offset
        return ListedOffset(0, start, -1, hosted.log.epoch_for(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp < MAX_TIMESTAMP:
        return ListedOffset(int(ErrorCode.UNSUPPORTED_VERSION))
    found = hosted.log.max_timestamp() if timestamp == MAX_TIMESTAMP else hosted.log.offset_for_timestamp(timestamp, end)
    if found is None or found.offset >= end:
        return NOT_FOUND
    return ListedOffset(0, found.offset, found.timestamp, found.leader_epoch)
