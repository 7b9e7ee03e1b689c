"""ListOffsets: from a timestamp, or one of Kafka's special ones, to an offset (kafka-facts section 8)."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from libs.commitlog.errors import LogDamaged
from libs.commitlog.log import FoundTimestamp, TimestampSearch
from libs.commitlog.reading import BatchOpening, HeaderWalk
from libs.commitlog.segment_batches import WouldWait
from libs.rpc.call import Call
from libs.rpc.contracts.storage import ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal, refuse_client_epoch
from services.storage.hosted import Hosted
from services.storage.offload import Offload
from services.storage.partitions import Partitions
from services.storage.reading import READ_COMMITTED

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)

NOT_FOUND = ListedOffset(0)
NOT_AVAILABLE = ListedOffset(int(ErrorCode.OFFSET_NOT_AVAILABLE))


class OffsetListing:
    """Answers at once from what is in memory, the page cache's too; what needs a disk or decompressing is done by `lookups`, off
    the loop.

    What an earlier leader, or this one before a crash, has committed may lie beyond the high watermark for a moment. Until it has
    caught up with where its epoch began, what depends on it is answered with 78 OFFSET_NOT_AVAILABLE: no end goes back.
    """

    def __init__(self, partitions: Partitions, lookups: Offload) -> None:
        self._partitions = partitions
        self._lookups = lookups

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(ListOffsets, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        committed = request.isolation == READ_COMMITTED
        answers = [self._answer(wanted, committed=committed) for wanted in request.partitions]
        answers = [answer if isinstance(answer, ListedOffset) else answer.at_once() or answer for answer in answers]
        if any(isinstance(answer, Lookup) for answer in answers):
            return self._look_up(call, answers)
        call.reply(ListOffsetsReply(tuple([answer for answer in answers if isinstance(answer, ListedOffset)])))
        return None

    async def _look_up(self, call: Call, answers: Sequence["ListedOffset | Lookup"]) -> None:
        found: list[ListedOffset] = []
        for answer in answers:
            if call.cancelled:
                return
            found.append(answer if isinstance(answer, ListedOffset) else await answer.run(self._lookups))
        call.reply(ListOffsetsReply(tuple(found)))

    def _answer(self, wanted: ListOffsetsPartition, *, committed: bool) -> "ListedOffset | Lookup":
        found = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(found, Refusal):
            return ListedOffset(found.error)
        if error := refuse_client_epoch(wanted.current_leader_epoch, found.leader_epoch):
            return ListedOffset(error)
        return _find(found, wanted.timestamp, found.last_stable_offset if committed else found.high_watermark)


@dataclass(slots=True)
class Lookup:
    """`end`: the first offset that the caller may not see. What lies at or past it counts as not found."""

    hosted: Hosted
    timestamp: int
    end: int
    search: TimestampSearch
    step: HeaderWalk | BatchOpening | None = None
    """What comes next; None at first."""

    def at_once(self) -> ListedOffset | None:
        """None: it needs a thread, and `run` goes on from here."""
        try:
            self.step = next(self.search)
            while True:
                self.step = self.search.send(self.step.at_once())
        except StopIteration as done:
            return self._answer(done.value)
        except WouldWait:
            return None
        except (LogDamaged, OSError) as error:
            return self._failed(error)

    async def run(self, offload: Offload) -> ListedOffset:
        try:
            step = self.step or next(self.search)
            while True:
                step = self.search.send(await offload.submit(step))
        except StopIteration as done:
            return self._answer(done.value)
        except (LogDamaged, OSError) as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> ListedOffset:
        self.hosted.failed_reads.tell(self.hosted, error, timestamp=self.timestamp)
        return ListedOffset(int(ErrorCode.KAFKA_STORAGE_ERROR))

    def _answer(self, found: FoundTimestamp | None) -> ListedOffset:
        if found is None:
            return NOT_FOUND
        if found.offset >= self.end:
            return NOT_AVAILABLE if self.hosted.is_behind else NOT_FOUND
        return ListedOffset(0, found.offset, found.timestamp, found.leader_epoch)


def _find(hosted: Hosted, timestamp: int, end: int) -> ListedOffset | Lookup:
    if timestamp == LATEST:
        if hosted.is_behind:
            return NOT_AVAILABLE
        return ListedOffset(0, end, -1, hosted.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # nothing is tiered: the earliest is local
        start = hosted.log_start_offset
        return ListedOffset(0, start, -1, hosted.log.epochs.epoch_for(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp < MAX_TIMESTAMP:
        return ListedOffset(int(ErrorCode.UNSUPPORTED_VERSION))
    if timestamp == MAX_TIMESTAMP:
        return Lookup(hosted, timestamp, end, hosted.log.search_max_timestamp())
    searched = hosted.log_end_offset if hosted.is_behind else end
    return Lookup(hosted, timestamp, end, hosted.log.search_timestamp(timestamp, searched))
