"""Batches on their way to their leaders: one RPC per storage node and request, and what happens when that fails.

Rule (DESIGN section 4, hiding a failover): what was never sent, or was refused without being stored, may wait for the new leader.
What was sent and not answered is sent again only if the batch has a producer id: should the first have landed, the second is
a duplicate, which the leader recognises. Everything else answers NOT_LEADER_OR_FOLLOWER. A leader that another has replaced is
not waited for: it may be stopped, or cut off, and its connection may look well for minutes.
"""

import asyncio
import logging
from collections.abc import Sequence

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
from libs.wire.errors import ErrorCode
from services.gateway.batch import Batch, Produce
from services.gateway.core.given_back import GivenBack
from services.gateway.core.routing import Routes
from services.gateway.flight import Flight
from services.gateway.meters import Meters
from services.gateway.nodes import Nodes, StorageNode

log = logging.getLogger(__name__)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)
OUT_OF_ORDER = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

PARK_S_MAX = 5.0
LAST_WORDS_S = 0.25
"""For a replaced leader to answer what nobody may send again: one that lives says in no time what became of it."""
RETRY_S_FIRST, RETRY_S_MAX = 0.02, 0.32
"""Between two tries in one leader epoch. Another epoch in the image ends the wait."""
PATIENCE_S = 1.0
"""On top of the request's own timeout: the leader answers REQUEST_TIMED_OUT itself, and knows more than we do."""
TIMEOUT_S_MIN = 5.0
"""The timeout of an acks=1 request bounds nothing at Kafka's brokers, so a tiny one must not fail it here."""
TIMEOUT_S_MAX = 600.0


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

    def follow(self, routes: Routes, *, moved: bool = True) -> None:
        """A new image: those who wait may have a leader now, and if partitions `moved`, those who were sent another."""
        self._routes = routes
        if moved:
            self._recall()
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
                Flight(self, node, list(batches)),
                timeout_s=timeout_s,
            )
        except (Overloaded, Disconnected):
            return False
        return True

    def landed(self, flight: Flight, outcome: Response | Exception) -> None:
        batches = flight.batches
        try:
            if isinstance(outcome, Exception):
                raise outcome
            rows = outcome.body[0] if outcome.body else None
            if type(rows) is not list or len(rows) != len(batches):
                raise ContractError(f"not a result for each of {len(batches)} partitions")
            results = [_stored(row) or unpack(Appended, row) for row in rows]
        except (RpcFailure, ContractError) as error:
            self._failed(flight, error)
            return
        for batch, result in zip(batches, results, strict=True):
            if batch is None:
                continue
            try:
                if isinstance(result, tuple):
                    if self.given_back and (found := batch.producer):
                        self.given_back.came(*found)
                    batch.stored(*result)
                elif result.error in (NOT_LEADER, UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID):
                    self._refused(flight.node, batch, result)
                elif result.error:
                    self._fail(batch, result)
                else:
                    batch.stored(result.base_offset, result.log_append_time_ms, result.log_start_offset)
            except Exception:
                # The others in this answer belong to other requests.
                log.exception("append not answered", extra=fields(node=flight.node.node_id))
                batch.request.give_up()

    def _refused(self, node: StorageNode, batch: Batch, result: Appended) -> None:
        """Its node or we are behind. Wait for whoever it is, if that stores nothing twice, and no later batch before this one."""
        route = batch.topic.partition(batch.partition)
        epoch = route.leader_epoch if route is not None else -1
        is_identified = batch.producer is not None
        # A node that leads no longer refuses whatever was sent behind, too, so that all of it comes here before it leaves again.
        is_deposed = result.leader_epoch > epoch or (route is not None and route.leader != node.node_id)
        in_order = batch.request.may_overtake_nothing() or (is_identified and is_deposed)
        if batch.request.gone or batch.request.acks == 0 or not in_order or (result.in_log and not is_identified):
            self._fail(batch, result)
            return
        again_s = RETRY_S_FIRST
        if result.leader_epoch > epoch:
            again_s = RETRY_S_MAX  # our image will say who it is now
        elif batch.refused_in == epoch:
            again_s = min(2 * batch.retry_s, RETRY_S_MAX)
        batch.refused_in, batch.retry_s, batch.retry_at = epoch, again_s, self._loop.time() + again_s
        self._park(batch, result)

    def _failed(self, flight: Flight, error: Exception) -> None:
        node = flight.node
        sent = error.sent if isinstance(error, RpcFailure) else True
        if not isinstance(error, RpcFailure):
            log.warning("append failed", extra=fields(node=node.node_id, error=f"{type(error).__name__}: {error}"))
        for batch in flight.batches:
            if batch is None:
                continue
            if isinstance(error, RpcError):
                self._fail(batch, Appended(error.code, message=error.message))
            elif isinstance(error, ShuttingDown):
                self._refused(node, batch, Appended(NOT_LEADER))
            elif isinstance(error, DeadlineExceeded) and sent:
                self._fail(batch, Appended(TIMED_OUT))
            elif not sent or batch.producer is not None:
                self._meters.resent_total += sent
                self._park(batch)
            else:
                self._fail(batch, Appended(NOT_LEADER))

    # --- what is on its way to a node that leads no longer ------------------------------------------------------------

    def _recall(self) -> None:
        """Take back what is under way to replaced leaders and may be sent again. The rest has a moment for an answer."""
        for node in self._nodes.known():
            for request_id, whose in node.client.under_way():
                if isinstance(whose, Flight) and self._take_back(whose, request_id, last=False):
                    self._loop.call_later(LAST_WORDS_S, self._abandon, whose, request_id)

    def _abandon(self, flight: Flight, request_id: int) -> None:
        if not flight.landed:
            self._take_back(flight, request_id, last=True)

    def _take_back(self, flight: Flight, request_id: int, *, last: bool) -> bool:
        """Whether the flight still has batches of which only the replaced leader knows what became."""
        left = False
        for at, batch in enumerate(flight.batches):
            if batch is None:
                continue
            topic = self._routes.topic_by_id(batch.topic.topic_id)
            route = topic.partition(batch.partition) if topic is not None else None
            if route is None or route.leader == flight.node.node_id:
                continue
            resend = batch.producer is not None and batch.request.acks != 0
            if not resend and not last:
                left = True
                continue
            flight.batches[at] = None
            if resend:
                self._meters.resent_total += 1
                self._park(batch)
            else:
                self._fail(batch, Appended(NOT_LEADER))
        if all(batch is None for batch in flight.batches):
            flight.landed = True
            flight.node.client.cancel(request_id)
        return left

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
        now = self._loop.time()
        for key in self._parked.keys():  # noqa: SIM118 - a copy: sending may park again
            topic = self._routes.topic_by_id(key[0])
            route = topic.partition(key[1]) if topic is not None else None
            if topic is None or route is None:
                for batch in self._parked.take(key):
                    self._fail(batch, Appended(UNKNOWN_PARTITION))
                continue
            node = self._nodes.ready(route.leader) if route.leader >= 0 else None
            while node is not None and (head := self._parked.first(key)) is not None:
                if head.refused_in == route.leader_epoch and head.retry_at > now:
                    break
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
