"""Batches on their way to their leaders: one RPC per storage node and request, and what happens when that fails.

Rule (DESIGN section 4, hiding a failover): what was never sent, or was refused without being stored, may wait for the new leader.
What was sent and not answered is sent again only if the batch has a producer id: should the first have landed, the second is
a duplicate, which the leader recognises. Everything else answers NOT_LEADER_OR_FOLLOWER.
"""

import asyncio
import logging
import struct
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from libs.rpc.client import Response
from libs.rpc.contracts.storage import APPEND, Appended
from libs.rpc.errors import (
    ContractError,
    DeadlineExceeded,
    Disconnected,
    Overloaded,
    RpcError,
    RpcFailure,
    ShuttingDown,
)
from libs.rpc.schema import unpack
from libs.runtime.waiting_lines import COPIED_BYTES_MAX, WaitingLines
from libs.telemetry.logs import fields
from libs.wire.batch_layout import HEADER_SIZE, PRODUCER_ID_AT
from libs.wire.errors import ErrorCode
from services.gateway.core.given_back import GivenBack, Producer
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.meters import Meters
from services.gateway.nodes import Nodes, StorageNode

log = logging.getLogger(__name__)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)
OUT_OF_ORDER = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

PARK_S_MAX = 5.0
PATIENCE_S = 1.0
"""On top of the request's own timeout: the leader answers REQUEST_TIMED_OUT itself, and knows more than we do."""
TIMEOUT_S_MIN = 5.0
"""The timeout of an acks=1 request bounds nothing at Kafka's brokers, so a tiny one must not fail it here."""
TIMEOUT_S_MAX = 600.0

_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence


class Produce(Protocol):
    """The request that a batch belongs to."""

    acks: int
    timeout_ms: int
    transactional_id: str | None
    gone: bool  # the client hung up

    def sent(self, now: float) -> None: ...

    def settle(self, slot: int, result: Appended) -> None: ...

    def give_up(self) -> None:
        """It can have no answer: ends its connection."""
        ...

    def may_overtake_nothing(self) -> bool:
        """Whether no other request of its connection is under way, so that sending it again keeps the order."""
        ...


class Batch:
    """One partition's records in one request. `order` rises over all requests of this process."""

    __slots__ = ("deadline", "order", "partition", "records", "request", "slot", "topic")

    def __init__(self, request: Produce, slot: int, topic: TopicRoute, partition: int, records: memoryview, order: int) -> None:
        self.request = request
        self.slot = slot
        self.topic = topic
        self.partition = partition
        self.records: memoryview | bytes = records
        self.order = order
        self.deadline = 0.0  # of parking; 0.0: was never parked

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic.topic_id, self.partition

    def stored(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        self.request.settle(self.slot, Appended(0, base_offset, log_append_time_ms, log_start_offset))

    def failed(self, result: Appended) -> None:
        self.request.settle(self.slot, result)

    @property
    def producer(self) -> tuple[Producer, int] | None:
        """Whose it is, and its first sequence; None: nobody's who could be told from others."""
        if len(self.records) < HEADER_SIZE:
            return None
        producer_id, epoch, sequence = _PRODUCER.unpack_from(self.records, PRODUCER_ID_AT)
        return (Producer(self.key, producer_id, epoch), sequence) if producer_id >= 0 else None


class Appends:
    """`submit` what a request has for the leaders; each batch is settled exactly once, unless its client is gone."""

    def __init__(self, nodes: Nodes, routes: Routes, meters: Meters, *, parked_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._nodes = nodes
        self._routes = routes
        self._meters = meters
        self._parked: WaitingLines[tuple[bytes, int], Batch] = WaitingLines(parked_bytes_max)
        self.given_back = GivenBack()
        self._staged: dict[tuple[bytes, int, int, int], list[Batch]] = {}
        self._tick: asyncio.TimerHandle | None = None

    @property
    def parked(self) -> WaitingLines[tuple[bytes, int], Batch]:
        """Batches that wait for a leader. One dead leader may fill the budget; the healthy never need it."""
        return self._parked

    def follow(self, routes: Routes) -> None:
        """A new image: those who wait may have a leader now."""
        self._routes = routes
        self.retry()

    def stage(self, batch: Batch) -> None:
        """For requests of one batch: those to one partition that came in one read leave in one RPC. Then `flush`."""
        key = (batch.topic.topic_id, batch.partition, batch.request.acks, batch.request.timeout_ms)
        staged = self._staged.get(key)
        if staged is None:
            self._staged[key] = [batch]
        else:
            staged.append(batch)

    def flush(self) -> None:
        """The end of a turn: sends what is staged."""
        if self._staged:
            staged, self._staged = self._staged, {}
            for batches in staged.values():
                self._submit_to_one(batches)

    def submit(self, batches: Sequence[Batch]) -> None:
        self.flush()  # what came before stays before
        if len(batches) == 1:
            self._submit_to_one(batches)
            return
        by_node: dict[int, list[Batch]] = {}
        for batch in batches:
            route = batch.topic.partition(batch.partition)
            leader = route.leader if route is not None else -1
            if leader < 0 or batch.key in self._parked or self._nodes.ready(leader) is None:
                self._park(batch)
            else:
                by_node.setdefault(leader, []).append(batch)
        for leader, of_node in by_node.items():
            node = self._nodes.ready(leader)
            if node is None or not self._send(node, of_node):
                for batch in of_node:
                    self._park(batch)

    def _submit_to_one(self, batches: Sequence[Batch]) -> None:
        """All of them for one partition."""
        first = batches[0]
        route = first.topic.partitions[first.partition]
        node = self._nodes.ready(route.leader) if route is not None and route.leader >= 0 else None
        if node is None or (self._parked and first.key in self._parked) or not self._send(node, batches):
            for batch in batches:
                self._park(batch)

    def _send(self, node: StorageNode, batches: Sequence[Batch]) -> bool:
        """One RPC. False: nothing was sent, the node has enough to do."""
        request = batches[0].request
        # As contracts/storage.py has Append, without making the dataclasses only to take them apart again.
        parts = []
        now = self._loop.time()
        for batch in batches:
            batch.request.sent(now)
            route = batch.topic.partitions[batch.partition]
            epoch = route.leader_epoch if route is not None else -1
            parts.append([batch.topic.topic_id, batch.partition, epoch, len(batch.records)])
        timeout_s = min(max(request.timeout_ms / 1000, TIMEOUT_S_MIN), TIMEOUT_S_MAX) + PATIENCE_S
        try:
            node.client.send(
                APPEND,
                [request.acks, request.timeout_ms, parts, request.transactional_id, self._routes.image.revision],
                [batch.records for batch in batches],
                partial(self._replied, node, batches),
                timeout_s=timeout_s,
            )
        except (Overloaded, Disconnected):
            return False
        return True

    def _replied(self, node: StorageNode, batches: Sequence[Batch], outcome: Response | Exception) -> None:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            rows = outcome.body[0] if outcome.body else None
            if type(rows) is not list or len(rows) != len(batches):
                raise ContractError(f"not a result for each of {len(batches)} partitions")
            results = [_stored(row) or unpack(Appended, row) for row in rows]
        except (RpcFailure, ContractError) as error:
            self._failed(node, batches, error)
            return
        for batch, result in zip(batches, results, strict=True):
            try:
                if isinstance(result, tuple):
                    if self.given_back and (found := batch.producer):
                        self.given_back.came(*found)
                    batch.stored(*result)
                elif result.error in (NOT_LEADER, UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID):
                    self._refused(batch, result)
                elif result.error:
                    self._fail(batch, result)
                else:
                    batch.stored(result.base_offset, result.log_append_time_ms, result.log_start_offset)
            except Exception:
                # The others in this answer belong to other requests.
                log.exception("append not answered", extra=fields(node=node.node_id))
                batch.request.give_up()

    def _refused(self, batch: Batch, result: Appended) -> None:
        """Not stored. Its node or we are behind; wait for whoever it is, if that cannot put a later batch before this one."""
        if not batch.request.gone and batch.request.may_overtake_nothing() and batch.request.acks != 0:
            self._park(batch, result)
        else:
            self._fail(batch, result)

    def _failed(self, node: StorageNode, batches: Sequence[Batch], error: Exception) -> None:
        sent = error.sent if isinstance(error, RpcFailure) else True
        if not isinstance(error, RpcFailure):
            log.warning("append failed", extra=fields(node=node.node_id, error=f"{type(error).__name__}: {error}"))
        for batch in batches:
            if isinstance(error, RpcError):
                self._fail(batch, Appended(error.code, message=error.message))
            elif isinstance(error, ShuttingDown):
                self._refused(batch, Appended(NOT_LEADER))
            elif isinstance(error, DeadlineExceeded) and sent:
                self._fail(batch, Appended(TIMED_OUT))
            elif not sent or batch.producer is not None:
                self._meters.resent_total += sent
                self._park(batch)
            else:
                self._fail(batch, Appended(NOT_LEADER))

    def _fail(self, batch: Batch, result: Appended) -> None:
        """The client sends it again, and with it what it had sent behind it."""
        if found := batch.producer:
            now = self._loop.time()
            if result.error == OUT_OF_ORDER and self.given_back.is_awaited_before(*found, now):
                result = Appended(NOT_LEADER)
            elif result.error != OUT_OF_ORDER:
                self.given_back.add(*found, now)
        batch.failed(result)

    # --- waiting for a leader -----------------------------------------------------------------------------------------

    def _park(self, batch: Batch, refusal: Appended | None = None) -> None:
        if batch.request.gone:
            return
        now = self._loop.time()
        if not batch.deadline:
            batch.deadline = now + min(batch.request.timeout_ms / 2000, PARK_S_MAX)
        if batch.deadline <= now or not self._hold(batch):
            self._fail(batch, refusal or Appended(NOT_LEADER))
            return
        self._meters.parked_total += 1
        self._meters.parked_bytes = self._parked.bytes
        if self._tick is None:
            self._tick = self._loop.call_later(0.02, self._on_tick)

    def _hold(self, batch: Batch) -> bool:
        size = len(batch.records)
        if size <= COPIED_BYTES_MAX:
            batch.records = bytes(batch.records)
        return self._parked.hold(batch.key, batch, size=size, deadline=batch.deadline, order=batch.order)

    def hang_up(self, request: Produce) -> None:
        """The client is gone: what it has parked ends."""
        if self._parked:
            self._parked.drop(lambda batch: batch.request is request)
            self._meters.parked_bytes = self._parked.bytes

    def _on_tick(self) -> None:
        self._tick = None
        for batch in self._parked.expired(self._loop.time()):
            self._fail(batch, Appended(NOT_LEADER))
        self.retry()
        if self._parked and self._tick is None:
            self._tick = self._loop.call_later(0.02, self._on_tick)

    def retry(self) -> None:
        """Send, in order, whatever has a leader that can be reached."""
        for key in self._parked.keys():  # noqa: SIM118 - a copy: sending may park again
            topic = self._routes.topic_by_id(key[0])
            route = topic.partition(key[1]) if topic is not None else None
            if topic is None or route is None:
                for batch in self._parked.take(key):
                    self._fail(batch, Appended(UNKNOWN_PARTITION))
                continue
            node = self._nodes.ready(route.leader) if route.leader >= 0 else None
            while node is not None and (head := self._parked.first(key)) is not None:
                head.topic = topic
                if not self._send(node, (head,)):
                    break
                self._parked.pop(key)
        self._meters.parked_bytes = self._parked.bytes

    def close(self) -> None:
        if self._tick is not None:
            self._tick.cancel()


def _stored(row: object) -> tuple[int, int, int] | None:
    """(base offset, append time, log start offset) of a plain success, at a fraction of what `unpack` costs."""
    if type(row) is list and len(row) >= 4:
        error, base_offset, append_time, log_start = row[:4]
        if error == 0 and type(base_offset) is int and type(append_time) is int and type(log_start) is int:
            return base_offset, append_time, log_start
    return None
