"""The append path: the batches of one socket read are checked, staged, written with one `pwritev` a partition, and answered.

An append may be ahead of this node: its caller's image is newer, or the partition is being opened. It waits until the node has
caught up. Later appends for the same partition wait too, since they would overtake a refused one.

Consecutive batches of one call for one partition are staged as one append (`services/storage/produce/append_runs.py`).

A batch whose records must be validated waits in `services/storage/produce/batch_validation.py`, and is staged when its turn
comes. One that is out of its producer's sequence is refused after a check of leadership
(`services/storage/partition/leader_checks.py`).

Order of effects: check → stage (offsets are given here) → one write per partition at the end of the turn → answers to acks 0 and
1 → a sync round starts → answers to acks=all when the high watermark passes. No success is answered before the write that holds
the batch has returned.

This is the hottest code of the node, with tens of thousands of calls a second. So requests are read from their decoded lists, and
answers are written as lists, in the field order of `contracts/storage.py`. A test holds both to the contract.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from libs.clock import Clock
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.partition_log.log import BatchMeta
from libs.commitlog.producers.producer_state import Duplicate
from libs.rpc.server.call import Call
from libs.runtime.children import Children
from libs.telemetry.logs import fields
from libs.transactions.marker_numbers import MarkerNumbers
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.transactions.verification_errors import FIRST_THAT_ADDS
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import (
    TRANSACTIONAL,
    BatchError,
    BatchHeader,
    patch,
    set_log_append_time,
    validate_produce,
)
from libs.wire.record_batches.markers import Marker, read_marker
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.append_spans import WriteTimes
from services.storage.core.produce.ownership import COORDINATOR_ONLY
from services.storage.partition.append_answers import (
    appended,
    partitions_of,
    refused_as,
    revision_of,
    transaction_of,
)
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.coordinator_topics import COORDINATORS, require_own
from services.storage.partition.leader_checks import Confirm, LeaderChecks
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.pending_append import AppendCall, Staged, StagedAppend
from services.storage.produce.append_admission import AppendAdmission
from services.storage.produce.append_refusals import AppendRefusals
from services.storage.produce.append_runs import continues, stage_run
from services.storage.produce.append_successes import AppendSuccesses
from services.storage.produce.batch_validation import BatchValidation
from services.storage.produce.client_contexts import ClientContexts
from services.storage.produce.deferred_appends import DeferredAppend, DeferredAppends
from services.storage.produce.internal_topic_ownership import AskOwner, Owners, is_owners
from services.storage.produce.produce_timeouts import ProduceTimeouts
from services.storage.produce.returning_batches import ReturningBatches
from services.storage.produce.transaction_verification import TransactionVerification, VerifiedBatch
from services.storage.produce.validation_job import PendingBatch
from services.storage.storage_meters import StorageMeters

log = logging.getLogger("log")

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)

WaitedBatch = PendingBatch | VerifiedBatch


class Appends:
    """The append path. `accept` takes each call of a socket read, then `end_turn` comes once.

    `on_appended` is called for each replicated partition that grew.
    """

    def __init__(
        self,
        partitions: PartitionTable,
        clock: Clock,
        meters: StorageMeters,
        checks: LeaderChecks,
        *,
        children: Children,
        children_max: int,
        confirm: Confirm,
        ask_owner: AskOwner,
        on_appended: Callable[[Key], None],
        readers_wait: Callable[[Key], bool],
        coordinators: TransactionCoordinators,
        on_committed: Callable[[Partition, float], None],
        traces: AppendTraces,
    ) -> None:
        self._partitions = partitions
        self.owners = Owners(partitions, confirm, ask_owner)
        self._clock = clock
        self._meters = meters
        self._on_appended = on_appended
        self._readers_wait = readers_wait
        self._loop = asyncio.get_running_loop()
        self._traces = traces
        self.successes = AppendSuccesses(meters, traces, on_committed, self._loop.time)
        self._timeouts = ProduceTimeouts(self._loop, meters, traces, self.successes.uncommitted)
        self.marker_numbers = MarkerNumbers()
        self._returning = ReturningBatches(self._loop.time)
        self._refusals = AppendRefusals(partitions, checks, self._returning, traces, self._loop.time)
        self.verification = TransactionVerification(
            coordinators, self._stage_later, self._refuse_later, self._returning, traces.question
        )
        self._dirty: list[Partition] = []
        self._turn_ms = -1  # wall time of this turn, -1 between turns
        self._turn_time = 0.0
        self._admission = AppendAdmission(partitions)
        self.admit = self._admission.admit
        self._deferred = DeferredAppends(self._loop, partitions, self._refusals.refuse)
        self._validation = BatchValidation(
            self._loop,
            children,
            children_max,
            meters,
            ClientContexts(traces.recorder),
            on_validated=self._stage_later,
            on_timeout=self._validation_timed_out,
        )

    # -- accept ---------------------------------------------------------------------------------------------------------

    def accept(self, call: Call) -> None:
        """Takes one Append. Refusals are answered at once, the rest at the end of the turn or later."""
        payload = call.payload
        body: Any = call.body
        parts = partitions_of(body, len(payload))
        if parts is None:
            call.fail(INVALID_REQUEST, "not a storage.append")
            return
        if call.peer.role in COORDINATORS:
            require_own(call.peer, call.method, self._partitions, [(part[0], part[1]) for part in parts])
        if self._turn_ms < 0:
            self._begin_turn()
        acks: int = body[0]
        request = AppendCall(call, acks, self._turn_time, body[1] / 1000, len(parts), *transaction_of(body))
        self._meters.produce_requests += len(parts)
        waiting = bool(self._deferred)
        slot, end, last = -1, 0, len(parts) - 1
        while slot < last:
            slot += 1
            part = parts[slot]
            topic_id, index, epoch, length = part[:4]
            start, end = end, end + length
            key = topic_id, index
            admitted = self.admit(key, epoch, acks)
            if slot < last and type(admitted) is Partition and continues(parts[slot + 1], part):
                batches, run_end = self._stage_run(admitted, request, slot, parts, payload, start)
                if batches:
                    slot, end = slot + batches - 1, run_end
                    continue
            if len(part) > 4 and is_owners(part):  # an owner's append never waits: whatever prevents it, the owner claims again
                self.owners.take(admitted, part, request, slot, payload[start:end], self._stage_owners)
            elif type(admitted) is Partition and not (waiting and key in self._deferred):
                self._settle_or_stage(admitted, request, slot, payload[start:end], epoch)
            else:
                append = DeferredAppend(key, request, slot, epoch, revision_of(body), payload[start:end])
                if not self._deferred.defer(append, admitted):
                    if isinstance(admitted, Refusal):
                        refusal = admitted
                    else:  # there was no room for it to wait behind others
                        refusal = Refusal(NOT_LEADER_OR_FOLLOWER)
                        self._refusals.comes_again(key, payload[start:end])
                    self._refusals.refuse(key, request, slot, refusal, payload[start:end])

    def begin_request(self, call: Call, partitions: int, timeout_s: float) -> AppendCall:
        """Begins a request whose batches this node builds itself. All in-sync replicas acknowledge them."""
        if self._turn_ms < 0:
            self._begin_turn()
        return AppendCall(call, -1, self._turn_time, timeout_s, partitions)

    @property
    def turn_ms(self) -> int:
        """Wall time of the turn that was begun."""
        return self._turn_ms

    def _begin_turn(self) -> None:
        self._turn_ms, self._turn_time = self._clock.wall_ms(), self._loop.time()

    def _stage_run(
        self, partition: Partition, request: AppendCall, slot: int, parts: list[Any], payload: memoryview, start: int
    ) -> tuple[int, int]:
        """Stages a run, as `stage_run` does, unless its batches may have to wait, or are refused. A request of a transaction has
        none: each of its batches would be checked, found to be no part of a run, and checked again."""
        if partition.opens or request.transactional_id is not None or partition.topic in INTERNAL_TOPICS:
            return 0, start
        if self._deferred and partition.key in self._deferred:
            return 0, start
        is_first, knows_all = not partition.staged, not (self.verification or self._returning)
        try:
            return stage_run(partition, request, slot, parts, payload, start, self._turn_ms, takes_producers=knows_all)
        finally:
            if is_first and partition.staged:
                self._dirty.append(partition)

    def _settle_or_stage(self, partition: Partition, request: AppendCall, slot: int, view: memoryview, epoch: int) -> None:
        if partition.topic in INTERNAL_TOPICS:
            self._refusals.refuse(partition.key, request, slot, COORDINATOR_ONLY)
            return
        try:
            if partition.opens:
                batch = self._validation.take(partition, request, slot, view, epoch, self._turn_ms)
                if batch is not None:
                    result, header = batch.result()
                    self._stage(partition, request, slot, result, header)
            else:
                self._stage(partition, request, slot, view)
        except BatchError as error:
            self._refusals.refuse_batch(partition, request, slot, view, error)

    def _stage(
        self, partition: Partition, request: AppendCall, slot: int, view: memoryview, header: BatchHeader | None = None
    ) -> None:
        """Gives the batch its offsets. Raises BatchError, with nothing changed. `header` is of a batch that was checked
        before."""
        limits = partition.limits
        if header is None:
            header = validate_produce(view, limits, self._turn_ms)
        base = partition.next_offset
        max_timestamp = header.max_timestamp
        time_ms = -1
        if limits.log_append_time:
            max_timestamp = time_ms = self._turn_ms
        producers = partition.log.producers
        if header.producer_id >= 0 and (
            self.verification or self._returning or not producers.record_next(header, base, max_timestamp)
        ):
            if self.verification and self.verification.must_wait(partition, header):
                self._verify(partition, request, slot, view, header)
                return
            if self._returning and self._refusals.overtakes(partition, header):
                overtakes = BatchError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "batches before it are to come again")
                self._refusals.refuse_sequence(partition, request, slot, overtakes)
                return
            try:
                verdict = producers.check(header)
            except BatchError as error:
                self._refusals.refuse_sequence(partition, request, slot, error)
                return
            if type(verdict) is Duplicate:
                self._answer_duplicate(partition, request, slot, verdict)
                return
            begins = header.attributes & TRANSACTIONAL and not producers.in_transaction(header)
            if begins and not self.verification.is_granted(partition, header):
                is_known = producers.knows(header.producer_id)
                if not is_known and request.produce_version >= FIRST_THAT_ADDS and header.base_sequence:
                    reason = "a transaction of an unknown producer begins with 0"
                    raise BatchError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)
                self._verify(partition, request, slot, view, header)
                return
            if self._returning:
                self._returning.forget(partition.key, header.producer_id)
            producers.record_stamped(header, base, max_timestamp)
        self._put(partition, request, slot, view, base + header.last_offset_delta + 1, max_timestamp, time_ms)

    def _stage_owners(self, partition: Partition, request: AppendCall, slot: int, view: memoryview) -> None:
        """Gives a coordinator's batch its offsets. Raises BatchError, with nothing changed. A transactional one needs no
        verification: the coordinator has asked before it decided."""
        header = validate_produce(view, partition.limits, self._turn_ms, from_coordinator=True)
        if header.producer_id < 0:
            self._stage(partition, request, slot, view, header)
        elif header.is_control:
            marker = read_marker(view)
            if marker is None:
                raise BatchError(ErrorCode.INVALID_RECORD, "a control batch without a transaction marker")
            self.stage_marker(partition, request, slot, view, header, marker, raises_epoch=False)
        else:
            producers = partition.log.producers
            producers.check_epoch(header)
            producers.record(header, partition.next_offset)
            self._put(
                partition, request, slot, view, partition.next_offset + header.last_offset_delta + 1, header.max_timestamp, -1
            )

    def _put(
        self, partition: Partition, request: AppendCall, slot: int, view: memoryview, end: int, max_timestamp: int, time_ms: int
    ) -> None:
        """Nothing can fail here: the producers' state and the staged lists agree. `end`: the offset behind the batch. `time_ms`:
        the time that its records get, -1 where they keep their own."""
        base, epoch = partition.next_offset, partition.replica.leader_epoch
        patch(view, base, epoch)
        if time_ms >= 0:
            set_log_append_time(view, time_ms)
        if not partition.staged:
            self._dirty.append(partition)
        partition.next_offset = end
        partition.buffers.append(view)
        partition.batches.append(BatchMeta(base, end - 1, len(view), max_timestamp, end - 1, epoch))
        partition.staged.append(Staged(request, slot, end, appended(base, time_ms, partition.log.log_start_offset)))

    def stage_marker(
        self,
        partition: Partition,
        request: AppendCall,
        slot: int,
        view: memoryview,
        header: BatchHeader,
        marker: Marker,
        *,
        raises_epoch: bool,
    ) -> None:
        """Gives a transaction's marker its offset. Raises BatchError, with nothing changed."""
        producers = partition.log.producers
        producers.check_marker(header, marker, raises_epoch=raises_epoch)
        base = partition.next_offset
        producers.record_marker(header, base, marker)
        # Behind the record: questions that are asked anew name this marker's owner.
        self.verification.ended(
            partition, header.producer_id, header.producer_epoch - 1 if raises_epoch else header.producer_epoch
        )
        self._put(partition, request, slot, view, base + 1, header.max_timestamp, -1)

    # -- batches that wait for a transaction coordinator ------------------------------------------------------------------

    def _verify(self, partition: Partition, request: AppendCall, slot: int, view: memoryview, header: BatchHeader) -> None:
        refusal = self.verification.take(partition, request, slot, view, header)
        if refusal is not None:
            self._refusals.refuse(partition.key, request, slot, refusal)

    def _answer_duplicate(self, partition: Partition, request: AppendCall, slot: int, original: Duplicate) -> None:
        """Answers a duplicate like its original and never before it: it waits for the same offset."""
        self._meters.duplicates += 1
        # As in Kafka, the original's time, whatever the topic's timestamp type.
        answer = appended(original.base_offset, original.timestamp, partition.log.log_start_offset)
        duplicate = Staged(request, slot, original.last_offset + 1, answer)
        if duplicate.end_offset > partition.log.log_end_offset:
            partition.staged.append(duplicate)  # the original is staged in this turn, and its write may still fail
        else:
            now = self._loop.time()
            self._written(partition, duplicate, (self._turn_time, now, now))

    # -- the end of the turn --------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Writes what was staged, answers what can be answered, and starts sync rounds."""
        if self._turn_ms < 0:
            return
        self._turn_ms = -1
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        for partition in dirty:
            try:
                self._write(partition)
            except Exception:
                # Other partitions of this turn are not affected. Callers without an answer end by their deadlines.
                log.exception("append not answered", extra=fields(partition=partition))
        for partition in dirty:
            partition.sync.start_round()

    def _write(self, partition: Partition) -> None:
        staged, buffers, batches = partition.take_staged()
        began_at = self._loop.time()
        try:
            partition.log.append(buffers, batches)
        except LogWriteError as error:
            partition.sync.room.append_failed(error, partition)
            self._refusals.write_failed(partition, staged, buffers)
            if error.fatal:
                partition.sync.fail(error)
            return
        except Exception:
            # A bug of ours. The log's content is unknown until the next start opens it again.
            log.exception("append failed", extra=fields(partition=partition))
            partition.offline = True
            self._refusals.write_failed(partition, staged, buffers)
            return
        traffic = partition.traffic
        start = batches[0].base_offset
        traffic.messages_in += partition.next_offset - start
        traffic.bytes_in += batches[0].size if len(batches) == 1 else sum([batch.size for batch in batches])
        now = self._loop.time()
        self._meters.appended.observe(now - self._turn_time, len(batches))
        partition.replica.appended(partition.next_offset)
        write = self._turn_time, began_at, now
        for append in staged:
            self._written(partition, append, write)
        partition.sync.appended(partition)
        if partition.replica.has_followers:
            self._on_appended(partition.key)
        if partition.parked or self._readers_wait(partition.key):
            partition.sync.mark_urgent()

    def _written(self, partition: Partition, append: StagedAppend, write: WriteTimes) -> None:
        append.write = write
        if append.request.acks != -1 or append.end_offset <= partition.replica.high_watermark:
            if append.end_offset > partition.acknowledged_end:
                partition.acknowledged_end = append.end_offset
            self.successes.answer(partition, append, write[2])
            return
        append.request.written()
        partition.parked.park(append.end_offset, append.request.deadline, append)
        self._timeouts.watch(partition, append.request.deadline)

    # -- what happens to those that wait --------------------------------------------------------------------------------

    def refuse_waiting(self, partition: Partition, refusal: Refusal) -> None:
        """Refuses the produces that wait: leadership was lost, the disk failed, or the partition is gone.

        What is committed is not refused, even if that effect is still to be carried out.
        """
        self.successes.answer_committed(partition)
        answer = refused_as(refusal, in_log=True)
        now = self._loop.time()
        uncommitted = self.successes.uncommitted
        for append in [batch for each in partition.parked.drain() for batch in uncommitted(partition, each)]:
            partition.traffic.failed_produces += 1
            self._traces.answered(partition, append, now, refusal.error)
            append.refuse(answer)
        waited: list[WaitedBatch] = [*self._validation.drop(partition), *self.verification.drop(partition)]
        for batch in waited:
            self._refuse_later(batch, refusal)
        self._timeouts.forget(partition)

    def _stage_later(self, batches: Sequence[WaitedBatch]) -> None:
        """Appends batches that were validated or verified. Their partitions may have changed meanwhile, so admission is asked
        again."""
        self._begin_turn()
        for batch in batches:
            if batch.request.cancelled:  # its caller may have sent it elsewhere: stored now, it could be stored twice
                continue
            admitted = self.admit(batch.partition.key, batch.leader_epoch, batch.request.acks)
            if isinstance(admitted, Refusal):
                self._refuse_later(batch, admitted)
                continue
            try:
                view, header = batch.result()
                self._stage(admitted, batch.request, batch.slot, view, header)
            except BatchError as error:
                self._refusals.refuse_batch(admitted, batch.request, batch.slot, batch.view, error)
            except Exception:
                log.exception("append not answered", extra=fields(partition=admitted))
        self.end_turn()

    def _refuse_later(self, batch: WaitedBatch, refusal: Refusal) -> None:
        self._refusals.refuse(batch.partition.key, batch.request, batch.slot, refusal, batch.view)

    def _validation_timed_out(self, batch: PendingBatch) -> None:
        self._meters.expired_produces += 1
        self._refuse_later(batch, Refusal(REQUEST_TIMED_OUT, "the batch waited for too long to be opened"))

    def forget(self, key: Key) -> None:
        """Forgets a partition that has left this node."""
        self.owners.forget(key)
        self.marker_numbers.forget(key)

    def recheck(self) -> None:
        """Looks at deferred appends again, after a new image or the opening of a partition. They go on, or are refused."""
        if not self._deferred:
            return
        self._begin_turn()
        for append, admitted in self._deferred.take_ready(self.admit):
            if isinstance(admitted, Partition):
                self._settle_or_stage(admitted, append.request, append.slot, append.view, append.leader_epoch)
            else:
                self._refusals.refuse(append.key, append.request, append.slot, admitted, append.view)
        self.end_turn()

    def stop(self) -> None:
        """Takes no more appends: the node stops, and later ones would miss the final sync."""
        self._admission.stopping = True
        self._deferred.stop()
        self.recheck()
        waited: list[WaitedBatch] = [*self._validation.drop_all(), *self.verification.drop_all()]
        for batch in waited:
            self._refuse_later(batch, Refusal(NOT_LEADER_OR_FOLLOWER, None, -1, batch.partition.leader_epoch))

    def close(self) -> None:
        self._deferred.close()
        self._validation.close()
        self.verification.close()
        self._timeouts.close()
