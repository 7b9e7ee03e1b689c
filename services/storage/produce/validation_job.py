"""One batch whose records are validated, or that waits behind one: the quick path, the findings, and the bytes to append."""

import asyncio

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import CODEC_MASK
from libs.wire.record_batches.batches import BatchHeader, ProduceLimits, set_max_timestamp
from libs.wire.record_batches.opened_batches import OpenedBatch, OpeningRules, RecordsRefused, RefusedBatch
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import AppendCall

INLINE_BYTES_MAX = 64 << 10
INLINE_RECORDS_MAX = 64
INLINE_HEADERS_MAX = 64
"""About 50 µs on the event loop, 100 with all headers. Handing a job to a child costs as much, however small the job."""
WAIT_S_MIN, WAIT_S_MAX = 0.5, 30.0
"""The bounds of a wait. A short timeout is meant for replicas, and with acks=1 it is meant for nothing."""
_UNLIMITED = 1 << 64


class PendingBatch:
    """A batch that waits for validation. `outcome` is the child's result. A batch that need not be opened is `done` at once."""

    __slots__ = (
        "arrived_at",
        "attempts",
        "deadline",
        "done",
        "header",
        "job",
        "leader_epoch",
        "now_ms",
        "outcome",
        "partition",
        "removed",
        "request",
        "rules",
        "slot",
        "view",
    )

    def __init__(
        self,
        partition: Partition,
        request: AppendCall,
        slot: int,
        view: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        rules: OpeningRules | None,
        now_ms: int,
    ) -> None:
        self.partition, self.request, self.slot, self.view, self.header = partition, request, slot, view, header
        self.leader_epoch = leader_epoch
        self.rules = rules
        self.now_ms = now_ms
        self.done = rules is None
        self.outcome: OpenedBatch | RefusedBatch | None = None
        self.job: Job | None = None
        self.attempts = 0
        self.removed = False
        """The batch was answered, or goes on: a child's result for it is of no use."""
        self.arrived_at = request.received_at
        self.deadline = request.received_at + min(max(request.deadline - request.received_at, WAIT_S_MIN), WAIT_S_MAX)

    def result(self) -> tuple[memoryview, BatchHeader]:
        """The bytes to append, and their header. Raises BatchError, or RecordsRefused for bad records."""
        outcome = self.outcome
        if outcome is None:
            return self.view, self.header
        if isinstance(outcome, RefusedBatch):
            raise RecordsRefused(ErrorCode(outcome.code), outcome.message, outcome.record_errors)
        if outcome.replacement is not None:
            view = memoryview(outcome.replacement)
            return view, BatchHeader.at(view)
        if outcome.max_timestamp != self.header.max_timestamp:
            set_max_timestamp(self.view, outcome.max_timestamp)
            return self.view, self.header._replace(max_timestamp=outcome.max_timestamp)
        return self.view, self.header


class Job:
    __slots__ = ("batches", "future")

    def __init__(self, batches: list[PendingBatch]) -> None:
        self.batches = batches
        self.future: asyncio.Future[list[OpenedBatch | RefusedBatch]] | None = None


def header_limits(rules: OpeningRules) -> ProduceLimits:
    """The limits for a batch that will be opened: its records have the times, and its size may change when it is rebuilt."""
    return ProduceLimits(
        max_message_bytes=rules.max_message_bytes,
        segment_bytes=_UNLIMITED,
        log_append_time=rules.log_append_time,
        before_max_ms=_UNLIMITED,
        after_max_ms=_UNLIMITED,
    )


def is_cheap(view: memoryview, header: BatchHeader, rules: OpeningRules) -> bool:
    return (
        len(view) <= INLINE_BYTES_MAX
        and header.record_count <= INLINE_RECORDS_MAX
        and not header.attributes & CODEC_MASK
        and rules.codec <= 0
    )
