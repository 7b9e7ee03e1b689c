"""One batch that is opened, or waits behind one: what may be done at once, what was found, and what is appended for it."""

import asyncio

from libs.wire.batch_layout import CODEC_MASK
from libs.wire.batches import BatchHeader, ProduceLimits, set_max_timestamp
from libs.wire.errors import ErrorCode
from libs.wire.opened_batches import OpenedBatch, OpeningRules, RecordsRefused, RefusedBatch
from services.storage.hosted import Hosted
from services.storage.waiting import AppendRequest

INLINE_BYTES_MAX = 64 << 10
INLINE_RECORDS_MAX = 64
INLINE_HEADERS_MAX = 64
"""About 50 µs on the event loop, 100 with all of the headers. A child costs it as much for a job, however little the job is."""
WAIT_S_MIN, WAIT_S_MAX = 0.5, 30.0
"""However short a timeout is: it is meant for replicas, and with acks=1 for nothing at all."""
_UNLIMITED = 1 << 64


class Opening:
    """One batch. `outcome` is what the child said; a batch that need not be opened has None, and `done` at once."""

    __slots__ = (
        "arrived_at",
        "attempts",
        "deadline",
        "done",
        "header",
        "hosted",
        "job",
        "leader_epoch",
        "left",
        "now_ms",
        "outcome",
        "request",
        "rules",
        "slot",
        "view",
    )

    def __init__(
        self,
        hosted: Hosted,
        request: AppendRequest,
        slot: int,
        view: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        rules: OpeningRules | None,
        now_ms: int,
    ) -> None:
        self.hosted, self.request, self.slot, self.view, self.header = hosted, request, slot, view, header
        self.leader_epoch = leader_epoch
        self.rules = rules
        self.now_ms = now_ms
        self.done = rules is None
        self.outcome: OpenedBatch | RefusedBatch | None = None
        self.job: Job | None = None
        self.attempts = 0
        self.left = False
        """Answered, or on its way: what a child says of it now is of no use."""
        self.arrived_at = request.received_at
        self.deadline = request.received_at + min(max(request.deadline - request.received_at, WAIT_S_MIN), WAIT_S_MAX)

    def result(self) -> tuple[memoryview, BatchHeader]:
        """What to append. Raises BatchError, RecordsRefused where records are to blame."""
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

    def __init__(self, batches: list[Opening]) -> None:
        self.batches = batches
        self.future: asyncio.Future[list[OpenedBatch | RefusedBatch]] | None = None


def header_limits(rules: OpeningRules) -> ProduceLimits:
    """Of a batch that is about to be opened: times are its records', and its size may be another when it is rebuilt."""
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
