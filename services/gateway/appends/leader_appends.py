"""Batches on their way to their leaders: one RPC per storage node and request. `core/resending.py` decides what follows where a
leader did not store one."""

import asyncio
import itertools
import logging
from collections.abc import Mapping, Sequence

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND, Appended
from libs.rpc.messages.errors import (
    ContractError,
    DeadlineExceeded,
    Disconnected,
    Overloaded,
    RpcError,
    RpcFailure,
    ShuttingDown,
)
from libs.rpc.messages.schema import unpack
from libs.runtime.parked_queues import COPIED_BYTES_MAX, ParkedQueues
from libs.telemetry.logs import fields
from libs.telemetry.tracing.rpc_context import CONTEXTS_MAX, pack_contexts, unpack_contexts
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from services.gateway.appends.batch import Batch, Produce, Stored, apart, producer_of
from services.gateway.appends.in_flight_append import NO_CONTEXTS, InFlightAppend
from services.gateway.core.resending import Ended, Sent, Then, pause_s, what_follows
from services.gateway.core.returned_batches import Producer, ReturnedBatches
from services.gateway.core.routing import Routes
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_traces import RequestTraces
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.peers.storage_nodes import Nodes, StorageNode

log = logging.getLogger("requests")

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)
OUT_OF_ORDER_SEQUENCE_NUMBER = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

COMES_AGAIN = frozenset(int(code) for code in (*(code for code in ErrorCode if code.retriable), ErrorCode.MESSAGE_TOO_LARGE))
"""Errors after which a client sends the same records again. Java's splits a batch that is too large."""

PARK_S_MAX = 5.0
"""The longest time that a batch waits for a leader."""
FORMER_LEADER_TIMEOUT_S = 0.25
"""The time that a replaced leader has to answer for a batch that may not be sent again. A leader that is alive answers in less.
"""
TIMEOUT_S = 1.0
"""The margin on top of the request's own timeout. The leader answers REQUEST_TIMED_OUT itself, and knows more than the gateway.
"""
TIMEOUT_S_MIN = 5.0
"""The shortest timeout of an Append. Kafka's brokers ignore the timeout of an acks=1 request, so a tiny one must not fail it
here."""
TIMEOUT_S_MAX = 600.0


class LeaderAppends:
    """The gateway's appends. `submit` a request's batches: each is settled exactly once, unless its client has disconnected."""

    def __init__(
        self, nodes: Nodes, routes: Routes, meters: GatewayMeters, traces: RequestTraces, *, parked_bytes_max: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._nodes = nodes
        self._routes = routes
        self._meters = meters
        self._traces = traces
        self._parked: ParkedQueues[tuple[bytes, int], Batch] = ParkedQueues(parked_bytes_max)
        self.returned_batches = ReturnedBatches()
        self.orders = itertools.count()
        """Each batch that is received has the next order."""
        self._staged: dict[tuple[bytes, int, int, int], list[Batch]] = {}
        self.last_staged: Batch | None = None
        """The batch whose request the next one of its read may join. None: something else has come since."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def parked(self) -> ParkedQueues[tuple[bytes, int], Batch]:
        """The batches that wait for a leader. One dead leader may use up the budget: batches with a leader need none of it."""
        return self._parked

    def follow(self, routes: Routes, *, partitions_changed: bool = True) -> None:
        """Takes the routes of a new image, and sends parked batches whose leader is known now.

        `partitions_changed`: batches that are in flight to replaced leaders are taken back, too.
        """
        self._routes = routes
        if partitions_changed:
            self._recall()
        self.retry()

    def stage(self, batch: Batch) -> None:
        """Stages the only batch of a request. Staged batches of one partition leave in one RPC at the next `flush`."""
        if self.returned_batches and self._returned_too(batch):
            return
        key = (batch.topic.topic_id, batch.partition, batch.request.acks, batch.request.timeout_ms)
        staged = self._staged.get(key)
        if staged is None:
            self._staged[key] = [batch]
        else:
            staged.append(batch)
        # A batch that joins it is not looked at for a returned one of its producer.
        self.last_staged = None if self.returned_batches else batch

    def flush(self) -> None:
        """Sends the staged batches. Called at the end of a turn."""
        self.last_staged = None
        if self._staged:
            staged, self._staged = self._staged, {}
            for batches in staged.values():
                self._submit_to_partition(batches)

    def submit(self, batches: Sequence[Batch]) -> None:
        self.flush()  # staged batches arrived earlier, and must stay first
        if self.returned_batches:
            batches = [batch for batch in batches if not self._returned_too(batch)]
            if not batches:
                return
        if len(batches) == 1:
            self._submit_to_partition(batches)
            return
        by_node: dict[int, list[Batch]] = {}
        for batch in batches:
            route = batch.topic.partition(batch.partition)
            leader = route.leader if route is not None else -1
            if leader < 0 or batch.key in self._parked or self._nodes.ready(leader) is None:
                self._park(batch)
            else:
                by_node.setdefault(leader, []).append(batch)
        for leader, node_batches in by_node.items():
            node = self._nodes.ready(leader)
            if node is None or not self._send(node, node_batches):
                for batch in node_batches:
                    self._park(batch)

    def _submit_to_partition(self, batches: Sequence[Batch]) -> None:
        """Sends or parks batches that all belong to one partition."""
        first = batches[0]
        if len(batches) > 1 and any(batch.request.exchange.trace is not None for batch in batches):
            batches = apart(batches)
        route = first.topic.partitions[first.partition]
        node = self._nodes.ready(route.leader) if route is not None and route.leader >= 0 else None
        if node is None or (self._parked and first.key in self._parked) or not self._send(node, batches):
            for batch in apart(batches):
                self._park(batch)

    def _send(self, node: StorageNode, batches: Sequence[Batch]) -> bool:
        """Sends one RPC. False: nothing was sent, since the node has too many requests outstanding or no connection."""
        request = batches[0].request
        # The layout of Append in contracts/storage.py, without building its dataclasses.
        parts, exchanges, records, is_traced, in_runs = [], [], [], False, False
        now = self._loop.time()
        for batch in batches:
            exchange = batch.request.exchange
            exchange.note_asked(now)
            exchanges.append(exchange)
            if exchange.trace is not None:
                is_traced = True
            route = batch.topic.partitions[batch.partition]
            epoch = route.leader_epoch if route is not None else -1
            parts.append([batch.topic.topic_id, batch.partition, epoch, len(batch.records)])
            records.append(batch.records)
            if batch.run is not None:
                in_runs = True
                records += batch.run.records
                parts += [[batch.topic.topic_id, batch.partition, epoch, len(more)] for more in batch.run.records]
        joined = in_runs or (len(batches) > 1 and exchanges[0] is not exchanges[1])
        contexts, trace = self._contexts_of(exchanges) if is_traced else (NO_CONTEXTS, None)
        append = InFlightAppend(
            node,
            batches,
            self._runs_completed if in_runs else self.completed,
            exchanges=exchanges,
            joined=joined,
            sent_at=now,
            contexts=contexts,
            in_runs=in_runs,
        )
        revision = self._routes.image.revision
        body = [request.acks, request.timeout_ms, parts, request.transactional_id, revision, request.produce_version, joined]
        timeout_s = min(max(request.timeout_ms / 1000, TIMEOUT_S_MIN), TIMEOUT_S_MAX) + TIMEOUT_S
        try:
            append.request_id = node.client.send(APPEND, body, records, append, timeout_s=timeout_s, trace=trace)
        except (Overloaded, Disconnected):
            return False
        for exchange in exchanges if joined else exchanges[:1]:
            exchange.asks(append)
        return True

    def _contexts_of(self, exchanges: Sequence[Exchange]) -> tuple[Mapping[Exchange, SpanContext], bytes | None]:
        """The contexts of requests that are traced, and the same for the header."""
        contexts: dict[Exchange, SpanContext] = {}
        entries: list[tuple[int, SpanContext]] = []
        for slot, exchange in enumerate(exchanges):
            if exchange.trace is not None and len(entries) < CONTEXTS_MAX:
                if exchange not in contexts:
                    contexts[exchange] = self._traces.context_to_send(exchange.trace)
                entries.append((slot, contexts[exchange]))
        return contexts, pack_contexts(entries)

    def _runs_completed(self, append: InFlightAppend, outcome: Response | Exception) -> None:
        """Answers whole runs, if each batch of the append is plainly stored. Else each batch is looked at as one of its own."""
        append.answered_at = now = self._loop.time()
        results = all_stored(outcome) if append.in_runs and not self.returned_batches else None
        runs = append.whole_runs(now) if results is not None else []
        counts = [batch.request.exchange.requests for batch in runs]
        if results is None or not runs or len(results) != sum(counts):
            append.split()
            self.completed(append, outcome)
            return
        end = 0
        for batch, count in zip(runs, counts, strict=True):
            start, end = end, end + count
            if batch.request.gone:
                continue  # what was answered before it ended their connection, which parted it
            try:
                if batch.run is None:
                    batch.stored(*results[start])
                else:
                    batch.run.stored(results[start:end])
            except Exception:
                self._not_answered(append, batch)

    def completed(self, append: InFlightAppend, outcome: Response | Exception) -> None:
        batches = append.batches
        append.answered_at = self._loop.time()
        try:
            if isinstance(outcome, Exception):
                raise outcome
            rows = outcome.body[0] if outcome.body else None
            if type(rows) is not list or len(rows) != len(batches):
                raise ContractError(f"not a result for each of {len(batches)} partitions")
            results = [_stored(row) or unpack(Appended, row) for row in rows]
            if len(outcome.body) > 1:
                self._note_contexts(append, outcome.body[1])
        except (RpcFailure, ContractError) as error:
            self._failed(append, error)
            return
        for batch, result in zip(batches, results, strict=True):
            if batch is None:
                continue
            try:
                if isinstance(result, tuple):
                    if self.returned_batches and (identity := batch.producer):
                        producer, sequence = identity
                        self.returned_batches.stored(producer, sequence)
                    base_offset, append_time_ms, log_start_offset = result
                    batch.stored(base_offset, append_time_ms, log_start_offset)
                elif result.error in (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
                    self._refused(append.node, batch, result)
                elif result.error:
                    self._fail(batch, result)
                else:
                    batch.stored(result.base_offset, result.log_append_time_ms, result.log_start_offset)
            except Exception:
                self._not_answered(append, batch)

    def _not_answered(self, append: InFlightAppend, batch: Batch) -> None:
        """A bug of ours. The other batches of this answer may belong to other requests."""
        log.exception("append not answered", extra=fields(node=append.node.node_id))
        batch.request.gone = True
        batch.request.exchange.close("internal", "no answer to a Produce")

    def _note_contexts(self, append: InFlightAppend, packed: object) -> None:
        if type(packed) is bytes:
            for slot, context in unpack_contexts(packed):
                if slot < len(append.batches) and append.batches[slot] is not None:
                    append.found(slot, context, self._traces)

    def _refused(self, node: StorageNode, batch: Batch, result: Appended) -> None:
        """Handles a refusal that may come from an old image, the node's or ours."""
        route = batch.topic.partition(batch.partition)
        epoch = route.leader_epoch if route is not None else -1
        newer_elsewhere = result.leader_epoch > epoch
        exchange = batch.request.exchange
        sent = Sent(
            identified=batch.producer is not None,
            answered=batch.request.acks != 0,
            gone=batch.request.gone,
            alone=exchange.connection.is_only_request(exchange),
            deposed=newer_elsewhere or (route is not None and route.leader != node.node_id),
            in_log=result.in_log,
        )
        if what_follows(Ended.REFUSED, sent) is Then.FAIL:
            self._fail(batch, result)
            return
        former_s = batch.retry_s if batch.refused_epoch == epoch else None
        batch.refused_epoch, batch.retry_s = epoch, pause_s(newer_elsewhere=newer_elsewhere, former_s=former_s)
        batch.retry_at = self._loop.time() + batch.retry_s
        self._park(batch, result)

    def _failed(self, append: InFlightAppend, error: Exception) -> None:
        node = append.node
        if not isinstance(error, RpcFailure):
            log.warning("append failed", extra=fields(node=node.node_id, error=f"{type(error).__name__}: {error}"))
        for batch in append.batches:
            if batch is None:
                continue
            if isinstance(error, RpcError):
                self._fail(batch, Appended(error.code, message=error.message))
            elif isinstance(error, ShuttingDown):
                self._refused(node, batch, Appended(NOT_LEADER_OR_FOLLOWER))
            else:
                self._ended(batch, _end_of(error))

    def _ended(self, batch: Batch, ended: Ended) -> Then:
        """A try ended without an answer about the batch."""
        then = what_follows(ended, Sent(identified=batch.producer is not None, answered=batch.request.acks != 0))
        if then is Then.PARK:
            self._meters.resent_total += ended is not Ended.UNSENT
            self._park(batch)
        elif then is Then.FAIL:
            self._fail(batch, Appended(REQUEST_TIMED_OUT if ended is Ended.TIMED_OUT else NOT_LEADER_OR_FOLLOWER))
        return then

    # --- appends in flight to replaced leaders ------------------------------------------------------------------------

    def _recall(self) -> None:
        """Takes back the batches that are in flight to replaced leaders and may be sent again. The leader has a moment to answer
        the rest."""
        for node in self._nodes.known():
            for request_id, callback in node.client.in_flight():
                if isinstance(callback, InFlightAppend) and self._take_back(callback, request_id, Ended.REPLACED):
                    self._loop.call_later(FORMER_LEADER_TIMEOUT_S, self._abandon, callback, request_id)

    def _abandon(self, append: InFlightAppend, request_id: int) -> None:
        if not append.completed:
            self._take_back(append, request_id, Ended.ABANDONED)

    def _take_back(self, append: InFlightAppend, request_id: int, ended: Ended) -> bool:
        """Takes batches back from a replaced leader. True: some are left, of which only that leader knows whether they are
        stored."""
        unresolved = False
        append.split()
        for at, batch in enumerate(append.batches):
            if batch is None:
                continue
            topic = self._routes.topic_by_id(batch.topic.topic_id)
            route = topic.partition(batch.partition) if topic is not None else None
            if route is None or route.leader == append.node.node_id:
                continue
            append.batches[at] = None  # the answer counts no longer
            if self._ended(batch, ended) is Then.AWAIT:
                append.batches[at] = batch
                unresolved = True
        if all(batch is None for batch in append.batches):
            append.completed = True
            append.node.client.cancel(request_id)
        return unresolved

    def _fail(self, batch: Batch, result: Appended) -> None:
        """Answers a batch with an error. The client sends it again, together with the batches behind it."""
        if identity := batch.producer:
            producer, sequence = identity
            now = self._loop.time()
            if result.error == OUT_OF_ORDER_SEQUENCE_NUMBER and self.returned_batches.has_earlier(producer, sequence, now):
                result = Appended(NOT_LEADER_OR_FOLLOWER)
                self.returned_batches.add_behind(producer, sequence)
            elif result.error != OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._returned(identity, result.error)
        batch.failed(result)

    def returned(self, topic: str, partition: int, records: memoryview, error: int) -> None:
        """Notes records that never were a batch of these, and were answered with an error."""
        if identity := producer_of(topic, partition, records):
            self._returned(identity, error)

    def _returned(self, identity: tuple[Producer, int], error: int) -> None:
        comes_again = error in COMES_AGAIN
        self.returned_batches.add(*identity, next(self.orders), self._loop.time(), comes_again=comes_again)

    def _returned_too(self, batch: Batch) -> bool:
        """Whether the batch was answered with an error, since one before it was, which the client has not sent again yet."""
        if (identity := batch.producer) is None or not self.returned_batches.overtakes(*identity, batch.order, self._loop.time()):
            return False
        batch.failed(Appended(NOT_LEADER_OR_FOLLOWER))
        return True

    # --- waiting for a leader -----------------------------------------------------------------------------------------

    def _park(self, batch: Batch, refusal: Appended | None = None) -> None:
        if batch.request.gone:
            return
        now = self._loop.time()
        if not batch.deadline:
            batch.deadline = now + min(batch.request.timeout_ms / 2000, PARK_S_MAX)
        if batch.deadline <= now or not self._hold(batch):
            self._fail(batch, refusal or Appended(NOT_LEADER_OR_FOLLOWER))
            return
        batch.request.exchange.note_asked(now)
        self._meters.parked_total += 1
        self._meters.parked_bytes = self._parked.bytes
        if self._timer is None:
            self._timer = self._loop.call_later(0.02, self._on_timer)

    def _hold(self, batch: Batch) -> bool:
        size = len(batch.records)
        if size <= COPIED_BYTES_MAX:
            batch.records = bytes(batch.records)
        return self._parked.hold(batch.key, batch, size=size, deadline=batch.deadline, order=batch.order)

    def hang_up(self, request: Produce) -> None:
        """Drops the parked batches of a request whose client has disconnected."""
        request.gone = True
        if self._parked:
            self._parked.drop(lambda batch: batch.request is request)
            self._meters.parked_bytes = self._parked.bytes

    def _on_timer(self) -> None:
        self._timer = None
        for batch in self._parked.expired(self._loop.time()):
            self._fail(batch, Appended(NOT_LEADER_OR_FOLLOWER))
        self.retry()
        if self._parked and self._timer is None:
            self._timer = self._loop.call_later(0.02, self._on_timer)

    def retry(self) -> None:
        """Sends parked batches, in order, to each leader that has a connection."""
        now = self._loop.time()
        for key in self._parked.keys():  # noqa: SIM118 - a copy, since sending may park again
            topic = self._routes.topic_by_id(key[0])
            route = topic.partition(key[1]) if topic is not None else None
            if topic is None or route is None:
                for batch in self._parked.take(key):
                    self._fail(batch, Appended(UNKNOWN_TOPIC_OR_PARTITION))
                continue
            node = self._nodes.ready(route.leader) if route.leader >= 0 else None
            while node is not None and (head := self._parked.first(key)) is not None:
                if head.refused_epoch == route.leader_epoch and head.retry_at > now:
                    break
                head.topic = topic
                if self.returned_batches and self._returned_too(head):
                    self._parked.pop(key)
                    continue
                if not self._send(node, (head,)):
                    break
                self._parked.pop(key)
        self._meters.parked_bytes = self._parked.bytes

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _end_of(error: Exception) -> Ended:
    """How a try ended whose node gave no answer, or one that is none."""
    if isinstance(error, RpcFailure) and not error.sent:
        return Ended.UNSENT
    return Ended.TIMED_OUT if isinstance(error, DeadlineExceeded) else Ended.BROKEN


def _stored(row: object) -> tuple[int, int, int] | None:
    """(base offset, append time, log start offset) of a plain success, at a fraction of the cost of `unpack`. None: not a plain
    one."""
    if type(row) is list and len(row) >= 4:
        error, base_offset, append_time, log_start = row[:4]
        if error == 0 and type(base_offset) is int and type(append_time) is int and type(log_start) is int:
            return base_offset, append_time, log_start
    return None


def all_stored(outcome: Response | Exception) -> list[Stored] | None:
    """What became of each batch, if all are plainly stored and nothing else is told."""
    if isinstance(outcome, Exception) or not outcome.body or any(outcome.body[1:2]):
        return None
    rows = outcome.body[0]
    results = [_stored(row) for row in rows] if type(rows) is list else [None]
    return None if None in results else results  # type: ignore[return-value]
