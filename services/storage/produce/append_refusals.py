"""Appends that a leader refuses. The producer of a batch that is refused for now sends it again, before later ones that are on
their way."""

from collections.abc import Callable, Sequence
from typing import Final

from libs.rpc.messages.envelope import EMPTY
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError, BatchHeader, iter_batches
from services.storage.core.produce.admission import Refusal
from services.storage.partition.append_answers import refused, refused_as, refused_batch
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.pending_append import AppendCall, StagedAppend
from services.storage.produce.returning_batches import ReturningBatches

KAFKA_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)
TEMPORARY: Final = frozenset((int(ErrorCode.NOT_ENOUGH_REPLICAS), KAFKA_STORAGE_ERROR, int(ErrorCode.REQUEST_TIMED_OUT)))
"""Refusals of a leader that may take the next batch. For the others the gateway keeps the order, or no retry helps."""


class AppendRefusals:
    """It answers each batch that it refuses. `now` is the time of the event loop."""

    def __init__(
        self,
        partitions: PartitionTable,
        checks: LeaderChecks,
        returning: ReturningBatches,
        traces: AppendTraces,
        now: Callable[[], float],
    ) -> None:
        self._partitions, self._checks, self._returning, self._traces, self._now = partitions, checks, returning, traces, now

    def refuse(self, key: Key, request: AppendCall, slot: int, refusal: Refusal, batch: memoryview = EMPTY) -> None:
        """Refuses a batch that is in no log. `batch`: its producer sends it again, before those that are on their way."""
        self._partitions.traffic_of(key).failed_produces += 1
        if refusal.error in TEMPORARY:
            self.comes_again(key, batch)
        if (partition := self._partitions.by_key.get(key)) is not None:
            self._traces.refused(partition, request, slot, self._now(), refusal.error)
        request.settle(slot, refused_as(refusal))

    def refuse_batch(self, partition: Partition, request: AppendCall, slot: int, batch: memoryview, error: BatchError) -> None:
        partition.traffic.failed_produces += 1
        if error.code in TEMPORARY:
            self.comes_again(partition.key, batch)
        self._traces.refused(partition, request, slot, self._now(), error.code)
        request.settle(slot, refused_batch(error, partition.log.log_start_offset))

    def refuse_sequence(self, partition: Partition, request: AppendCall, slot: int, error: BatchError) -> None:
        """Refuses a batch that is out of its producer's sequence, once it is sure that this node still leads."""
        partition.traffic.failed_produces += 1
        request.written()
        answer = refused_batch(error, partition.log_start_offset)

        def checked(refusal: Refusal | None) -> None:
            told = refusal.error if refusal is not None else error.code
            self._traces.refused(partition, request, slot, self._now(), told)
            request.settle(slot, refused_as(refusal) if refusal is not None else answer)

        self._checks.check(partition, checked)

    def write_failed(self, partition: Partition, staged: Sequence[StagedAppend], buffers: Sequence[memoryview]) -> None:
        """Refuses staged appends after a failed write. The log and the producers' state are as before, so a retry is no
        duplicate."""
        partition.next_offset = partition.log.log_end_offset
        answer, now = refused(KAFKA_STORAGE_ERROR, "the write to disk failed"), self._now()
        for buffer in buffers:
            for batch in iter_batches(buffer):
                self.comes_again(partition.key, batch.view)
        appends = [append for each in staged for append in each.split()]
        partition.traffic.failed_produces += len(appends)
        for append in appends:
            self._traces.answered(partition, append, now, KAFKA_STORAGE_ERROR)
            append.refuse(answer)

    def overtakes(self, partition: Partition, header: BatchHeader) -> bool:
        """Whether batches before this one are to come again. Sequences of a known producer show that themselves."""
        return self._returning.precede(partition.key, header) and not partition.log.producers.knows(header.producer_id)

    def comes_again(self, key: Key, batch: memoryview) -> None:
        partition = self._partitions.by_key.get(key)  # None: it is being opened
        knows = partition.log.producers.knows if partition is not None else lambda _: False
        self._returning.remember_batch(key, batch, knows=knows)
