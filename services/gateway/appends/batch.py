"""One partition's records on their way to its leader, and the interface of the request that they belong to."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from libs.rpc.contracts.storage import Appended
from libs.wire.record_batches.batch_layout import producer_in
from services.gateway.core.returned_batches import Producer
from services.gateway.core.routing import TopicRoute
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_traces import RequestTraces


class Produce(Protocol):
    """The Produce request that a batch belongs to."""

    exchange: Exchange
    acks: int
    timeout_ms: int
    transactional_id: str | None
    produce_version: int
    gone: bool  # the client hung up

    def settle(self, slot: int, result: Appended) -> None: ...


Stored = tuple[int, int, int]
"""(base offset, append time, log start offset) of a stored batch."""


class BatchRun(Protocol):
    """The batches of requests that have joined the one before them (`services/gateway/shortcuts/produce_run.py`)."""

    records: list[memoryview]

    def split(self) -> Sequence["Batch"]:
        """Gives each its own request, as if none had joined another. Again: the same ones."""

    def stored(self, results: Sequence[Stored]) -> None:
        """Answers all requests of the run, also the first, at once."""


class Batch:
    """One partition's records in one request. `order` rises over all batches of this process."""

    __slots__ = (
        "deadline",
        "order",
        "partition",
        "records",
        "refused_epoch",
        "request",
        "retry_at",
        "retry_s",
        "run",
        "slot",
        "topic",
    )

    def __init__(self, request: Produce, slot: int, topic: TopicRoute, partition: int, records: memoryview, order: int) -> None:
        self.request = request
        self.slot = slot
        self.topic = topic
        self.partition = partition
        self.records: memoryview | bytes = records
        self.order = order
        self.deadline = 0.0  # of waiting for a leader; 0.0: never parked
        self.refused_epoch = -1  # the leader epoch of the last refusal, which the node may not know yet
        self.retry_at = 0.0  # the earliest time to send it again in that epoch
        self.retry_s = 0.0
        self.run: BatchRun | None = None  # of the batches behind it that have no request of their own

    def joins(self, frame: memoryview, traces: RequestTraces) -> bool:
        """Whether a frame repeats this batch's request, which has not been sent, and has joined it. One that is to be traced
        does not."""
        return False

    def may_end_whole(self, now: float, behind: Exchange | None) -> bool:
        """Whether nothing but its success is to be told of its request, and of those that have joined it, once `behind` is
        answered."""
        return False

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic.topic_id, self.partition

    def stored(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        self.request.settle(self.slot, Appended(0, base_offset, log_append_time_ms, log_start_offset))

    def failed(self, result: Appended) -> None:
        self.request.settle(self.slot, result)

    @property
    def producer(self) -> tuple[Producer, int] | None:
        """The producer and the batch's first sequence. None: the batch has no producer id."""
        return producer_of(self.topic.name, self.partition, self.records)


def producer_of(topic: str, partition: int, records: memoryview | bytes) -> tuple[Producer, int] | None:
    found = producer_in(records)
    if found is None:
        return None
    producer_id, epoch, sequence = found
    return Producer((topic, partition), producer_id, epoch), sequence


def apart(batches: Iterable[Batch]) -> list[Batch]:
    """The same batches, and those of their runs, each with its own request. Whoever holds them keeps these in their place."""
    parted: list[Batch] = []
    for batch in batches:
        parted.append(batch)
        run, batch.run = batch.run, None
        if run is not None:
            parted += run.split()
    return parted
