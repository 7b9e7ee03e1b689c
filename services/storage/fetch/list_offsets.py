"""ListOffsets: from a timestamp, or one of Kafka's special timestamps, to an offset."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from libs.commitlog.model.errors import LogDamaged, WouldBlock
from libs.commitlog.partition_log.log import TimestampAndOffset, TimestampSearch
from libs.commitlog.segments.timestamp_search import SearchStep
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.storage import ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.lookup_turns import TooManyLookups
from services.storage.core.produce.admission import Refusal, refuse_client_epoch
from services.storage.disks.disk_reads import TooManyReads
from services.storage.fetch.list_offsets_traces import ListOffsetsTraces
from services.storage.fetch.lookup_steps import LookupSteps
from services.storage.fetch.reading import READ_COMMITTED
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from services.storage.partition.leader_checks import Confirm
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
WITHOUT_END = frozenset((EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD))
"""The timestamps whose answers do not depend on the high watermark."""

INLINE_LOOKUPS_MAX = 32
"""The lookups of one request that are tried in the turn in which it came: about 3 ms."""
REPLY_S_BEFORE_DEADLINE_MAX = 1.0
"""The time that a reply has to reach a caller who would drop it after its deadline. It is a quarter of a short timeout."""

NOT_FOUND = ListedOffset(0)
NOT_AVAILABLE = ListedOffset(int(ErrorCode.OFFSET_NOT_AVAILABLE))
LATE = ListedOffset(int(ErrorCode.REQUEST_TIMED_OUT))


class ListOffsetsRequests:
    """Answers at once from memory and the page cache. What needs a disk, or takes long, is for `LookupSteps`.

    A caller that cancels, or goes away, ends its lookups. Those that too many others are ahead of are refused with
    REQUEST_TIMED_OUT, and so are those of a request that found no answer shortly before its deadline: the caller asks again
    later. The other partitions of the request have their answers.

    A log's end, the greatest timestamp, and "there is no such record" are true of the newest leader only. So `confirm` makes sure
    of it first. Other answers wait for nobody. A record that was found has the same offset in every successor's log. And a log's
    start may move at any time, wherever it is led.

    Records of earlier leader epochs, or from before a crash, may lie beyond the high watermark for a moment. Until it has reached
    the start of this epoch, answers that depend on it are OFFSET_NOT_AVAILABLE: no end goes back.

    Answers that depend on the end wait for a moment, so that they count what was acknowledged before (`ends`).
    """

    def __init__(
        self,
        partitions: PartitionTable,
        steps: LookupSteps,
        confirm: Confirm,
        ends: AcknowledgedEnds,
        traces: ListOffsetsTraces,
    ) -> None:
        self._traces = traces
        self._now = asyncio.get_running_loop().time
        self._partitions = partitions
        self._ends = ends
        self._steps = steps
        self._confirm = confirm

    def accept(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            request = unpack(ListOffsets, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return None
        bounded = [(wanted.topic_id, wanted.partition) for wanted in request.partitions if wanted.timestamp not in WITHOUT_END]
        if self._ends.hides_any(bounded):
            return self._answer_shown(call, request, bounded)
        return self._begin(call, request)

    async def _answer_shown(self, call: Call, request: ListOffsets, bounded: Sequence[Key]) -> None:
        await self._ends.shown(bounded)
        if not call.cancelled and (lookup := self._begin(call, request)) is not None:
            await lookup

    def _begin(self, call: Call, request: ListOffsets) -> Coroutine[Any, Any, None] | None:
        committed = request.isolation == READ_COMMITTED
        epochs = [self._epoch_of(wanted) for wanted in request.partitions]
        answers = [self._answer(wanted, committed=committed) for wanted in request.partitions]
        lookups = [slot for slot, answer in enumerate(answers) if isinstance(answer, Lookup)]
        for slot in lookups[:INLINE_LOOKUPS_MAX]:
            answers[slot] = _at_once(answers[slot])
        if any(isinstance(answer, Lookup) for answer in answers):
            return self._look_up(call, request, answers, epochs)
        self._reply(call, request, [answer for answer in answers if isinstance(answer, ListedOffset)], epochs)
        return None

    async def _look_up(
        self, call: Call, request: ListOffsets, answers: Sequence["ListedOffset | Lookup"], epochs: Sequence[int]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        call.on_cancel(partial(_cancel, task))
        found: list[ListedOffset | Lookup] = list(answers)
        lookups = [slot for slot, answer in enumerate(answers) if isinstance(answer, Lookup)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(_reply_by(call.deadline)):
                for slot in lookups:
                    if isinstance(answer := found[slot], Lookup) and not answer.is_begun:
                        await asyncio.sleep(0)  # others of the loop have their turn before each
                        found[slot] = self._lost(request.partitions[slot], epochs[slot]) or _at_once(answer)
                for slot in lookups:
                    if isinstance(answer := found[slot], Lookup):
                        lost = partial(self._lost, request.partitions[slot], epochs[slot])
                        found[slot] = await answer.run(self._steps, lost)
        self._reply(call, request, [LATE if isinstance(answer, Lookup) else answer for answer in found], epochs)

    def _reply(self, call: Call, request: ListOffsets, offsets: list[ListedOffset], epochs: Sequence[int]) -> None:
        """Replies once leadership is confirmed, where an answer depends on it.

        `epochs`: the leader epochs in which the answers were begun. Rule: a later epoch confirms no answer of an earlier one.
        Another leader may have acknowledged records in between, while a lookup waited for the disk.
        """
        unsure: dict[Partition, None] = {}
        for slot, (wanted, answer, epoch) in enumerate(zip(request.partitions, offsets, epochs, strict=True)):
            if _depends_on_leadership(wanted.timestamp, answer):
                led = self._led_in(wanted, epoch)
                if isinstance(led, Refusal):  # it was lost during a lookup
                    offsets[slot] = ListedOffset(led.error)
                else:
                    unsure[led] = None

        def on_confirmed(refusals: Mapping[Key, Refusal]) -> None:
            for slot, wanted in enumerate(request.partitions):
                refusal = refusals.get((wanted.topic_id, wanted.partition))
                if refusal is not None and _depends_on_leadership(wanted.timestamp, offsets[slot]):
                    offsets[slot] = ListedOffset(refusal.error)
            self._traces.answered(call, request, offsets, found_at, self._now())
            call.reply(ListOffsetsReply(tuple(offsets)))

        found_at = self._now()
        if unsure:
            self._confirm(unsure.keys(), on_confirmed)
        else:
            self._traces.answered(call, request, offsets, found_at, found_at)
            call.reply(ListOffsetsReply(tuple(offsets)))

    def _epoch_of(self, wanted: ListOffsetsPartition) -> int:
        """The leader epoch; -1 if this node does not serve the partition."""
        partition = self._partitions.serving((wanted.topic_id, wanted.partition))
        return -1 if isinstance(partition, Refusal) else partition.leader_epoch

    def _lost(self, wanted: ListOffsetsPartition, epoch: int) -> ListedOffset | None:
        """The answer if this node does not lead the partition in that epoch any more; else None."""
        led = self._led_in(wanted, epoch)
        return ListedOffset(led.error) if isinstance(led, Refusal) else None

    def _led_in(self, wanted: ListOffsetsPartition, epoch: int) -> Partition | Refusal:
        """The partition if this node still leads it in that epoch."""
        partition = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(partition, Partition) and partition.leader_epoch != epoch:
            return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return partition

    def _answer(self, wanted: ListOffsetsPartition, *, committed: bool) -> "ListedOffset | Lookup":
        partition = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(partition, Refusal):
            return ListedOffset(partition.error)
        if error := refuse_client_epoch(wanted.current_leader_epoch, partition.leader_epoch):
            return ListedOffset(error)
        return _find(partition, wanted.timestamp, partition.last_stable_offset if committed else partition.high_watermark)


def _depends_on_leadership(timestamp: int, answer: ListedOffset) -> bool:
    """Whether another leader that knows more records would answer otherwise."""
    if answer.error:
        return False
    return timestamp in (LATEST, MAX_TIMESTAMP) or (timestamp >= 0 and answer.offset < 0)


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _reply_by(deadline: float) -> float:
    left_s = deadline - asyncio.get_running_loop().time()
    return deadline - min(left_s / 4, REPLY_S_BEFORE_DEADLINE_MAX)


def _at_once(answer: "ListedOffset | Lookup") -> "ListedOffset | Lookup":
    """The answer of a lookup that needs no step of others; else the lookup, which has begun."""
    return answer if isinstance(answer, ListedOffset) else answer.nonblocking() or answer


@dataclass(slots=True)
class Lookup:
    """A search for a timestamp. `end` is the first offset that the caller may not see; records from there on are not found.

    `is_behind`: whether the high watermark was below the start of the epoch when `end` was taken. A search may wait for a disk.
    When it ends, records beyond `end` may be committed.
    """

    partition: Partition
    timestamp: int
    end: int
    is_behind: bool
    search: TimestampSearch
    step: SearchStep | None = None
    """The next step; None before the first."""

    @property
    def is_begun(self) -> bool:
        return self.step is not None

    def nonblocking(self) -> ListedOffset | None:
        """The answer without a thread. None: a step needs one, and `run` goes on from there."""
        try:
            self.step = next(self.search)
            while True:
                self.step = self.search.send(self.step.nonblocking())
        except StopIteration as done:
            return self._answer(done.value)
        except WouldBlock:
            return None
        except (LogDamaged, OSError) as error:
            return self._failed(error)

    async def run(self, steps: LookupSteps, lost: Callable[[], ListedOffset | None]) -> ListedOffset:
        """`lost`: the answer if the node has lost the partition since the search began.

        Rule: the loop asks `lost` in the turn that searches on. A thread cuts the log of a lost partition, and to touch a mapping
        of an index that shrinks is a SIGBUS. The loop loses the partition before it has a thread cut it. So no cut runs in that
        turn if nothing was lost.
        """
        try:
            step = self.step or next(self.search)
            while True:
                result = await steps.do(self.partition, step)
                if (answer := lost()) is not None:
                    return answer
                step = self.search.send(result)
        except StopIteration as done:
            return self._answer(done.value)
        except TooManyReads:
            return ListedOffset(int(ErrorCode.KAFKA_STORAGE_ERROR))
        except TooManyLookups:
            return LATE
        except (LogDamaged, OSError) as error:
            return lost() or self._failed(error)  # what is being cut looks damaged

    def _failed(self, error: Exception) -> ListedOffset:
        self.partition.failed_reads.report(self.partition, error, timestamp=self.timestamp)
        return ListedOffset(int(ErrorCode.KAFKA_STORAGE_ERROR))

    def _answer(self, match: TimestampAndOffset | None) -> ListedOffset:
        if match is None:
            return NOT_FOUND
        if match.offset >= self.end:
            return NOT_AVAILABLE if self.is_behind else NOT_FOUND
        return ListedOffset(0, match.offset, match.timestamp, match.leader_epoch)


def _find(partition: Partition, timestamp: int, end: int) -> ListedOffset | Lookup:
    if timestamp == LATEST:
        if partition.is_behind:
            return NOT_AVAILABLE
        return ListedOffset(0, end, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # nothing is tiered: the earliest is local
        start = partition.log_start_offset
        return ListedOffset(0, start, -1, partition.log.epochs.epoch_for(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp < MAX_TIMESTAMP:
        return ListedOffset(int(ErrorCode.UNSUPPORTED_VERSION))
    if timestamp == MAX_TIMESTAMP:
        return Lookup(partition, timestamp, end, partition.is_behind, partition.log.search_max_timestamp())
    searched = partition.log_end_offset if partition.is_behind else end
    return Lookup(partition, timestamp, end, partition.is_behind, partition.log.search_timestamp(timestamp, searched))
