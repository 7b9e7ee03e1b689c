"""One Fetch of a client that waits: it is sent to the node behind the addressed broker id, sent again after failures, and
answered.

A read may be sent as often as needed. While it is parked at a node, another node may become the right one: the leader changed, or
the follower left the ISR. As soon as an image says so, the read is taken back and begun anew. Then it is answered at once with
the new leader or, on the bootstrap port, sent to the new leader. While there is no leader, it waits.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import FETCH, Fetched, FetchReply
from libs.rpc.messages.errors import ContractError, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.telemetry.logs import fields
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchRequest
from services.gateway.core.fetch_plan import FetchPlan, make_plan
from services.gateway.core.fetch_template import FULL_FETCHES, FetchTemplate
from services.gateway.core.request_spans import Subject, partition_subject
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch import fetch_response
from services.gateway.fetch.record_ranges import Part, Ranges, length_of, open_and_pin, parts, pin
from services.gateway.peers.file_descriptors import FileGone
from services.gateway.peers.storage_nodes import StorageNode

log = logging.getLogger("requests")

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

TIMEOUT_S = 10.0
"""The margin on top of the client's max_wait, for the node to read and answer."""
RETRY_S_MAX = 5.0
"""The longest time for which a Fetch waits for a leader."""


class RecognisedFetch(Protocol):
    """The shortcut of a Fetch that has no need to be parsed."""

    template: FetchTemplate
    """It writes the answer."""

    def learn_answer(
        self, node: StorageNode, incarnation: int, topic_id: object, fetched: Fetched, parts: Sequence[Part]
    ) -> None:
        """Keeps what the node's answer about the partition says about the next fetch. `parts` are the bytes of its records."""


class PendingFetch:
    """A Fetch from its checks to its answer. It is also the RPC client's completion callback, through which image changes find
    it."""

    __slots__ = (
        "_data_path",
        "_deadline",
        "_exchange",
        "_expected",
        "_in_flight",
        "_inline",
        "_is_retry",
        "_max_wait_ms",
        "_node",
        "_plan",
        "_request",
        "_shortcut",
        "_started_at",
        "_task",
        "answered_at",
        "context",
        "request_id",
        "sent_at",
    )

    def __init__(self, data_path: DataPath, exchange: Exchange, request: FetchRequest, shortcut: RecognisedFetch | None) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._request = request
        self._shortcut = shortcut
        self._plan = FetchPlan(-1)
        self._node: StorageNode | None = None
        self._in_flight = False
        """Whether the last RPC request has no answer yet."""
        self._task: asyncio.Task[None] | None = None
        self._inline = False  # a file could not be opened: the bytes come by RPC
        self._expected = 0  # the bytes that the answer from another host may bring into memory
        self._is_retry = False
        self.request_id = 0
        """The last RPC request, as the next three."""
        self.sent_at = self.answered_at = 0.0
        self.context: SpanContext | None = None
        self._started_at = asyncio.get_running_loop().time()
        self._max_wait_ms = min(max(0, request.max_wait_ms), data_path.config.fetch_wait_ms_max)
        self._deadline = self._started_at + min(self._max_wait_ms / 1000, RETRY_S_MAX)

    def start(self) -> None:
        if self._request.session_epoch not in FULL_FETCHES:
            self._finish(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), {})
            return
        self._exchange.on_hang_up = self._hang_up
        self._ask()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _make_plan(self) -> FetchPlan:
        exchange = self._exchange
        return make_plan(self._data_path.routes, self._request, exchange.connection.broker_id, exchange.denied)

    def _ask(self) -> None:
        self._plan = new_plan = self._make_plan()
        if not new_plan.requested:
            if new_plan.leaderless:
                self._try_again()
            else:
                self._answer({})
            return
        node = self._data_path.nodes.ready(new_plan.node_id)
        if node is None or not self._send(node):
            self._try_again()

    def _send(self, node: StorageNode) -> bool:
        request, requested = self._request, self._plan.requested
        # Kafka answers at once when any partition has an error.
        wait = len(requested) == len(self._plan.results)
        max_wait_ms = self._left_ms() if wait else 0
        max_bytes = min(request.max_bytes, self._exchange.fetch_bytes_max(self._data_path.config.fetch_bytes_max))
        inline = self._inline or not node.same_host
        if inline:
            max_bytes = min(max_bytes, self._data_path.answers.inline_bytes_max())
        body = [
            max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.isolation_level,
            [of_partition for _, of_partition in requested],
            inline,
            -1,
        ]
        if request.rack_id:
            body += [request.rack_id, self._plan.follows]
        exchange, packed = self._exchange, None
        if exchange.trace is not None:
            self.context = self._data_path.traces.context_to_send(exchange.trace)
            packed = pack_context(self.context)
        timeout_s = max_wait_ms / 1000 + TIMEOUT_S
        try:
            self.request_id = node.client.send(FETCH, body, (), self, timeout_s=timeout_s, trace=packed)
        except (Overloaded, Disconnected):
            return False
        if inline:
            self._expect(max_bytes)
        self._node, self._in_flight = node, True
        self.sent_at = self._data_path.now()
        exchange.note_asked(self.sent_at)
        if not exchange.asked:
            exchange.asks(self)
        return True

    # --- what its trace is made of ------------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return FETCH

    @property
    def server(self) -> str:
        assert self._node is not None, "it was sent"
        return process_name(STORAGE, self._node.node_id, self._node.incarnation)

    def part_of(self, exchange: Exchange) -> int:
        return 0

    def context_of(self, exchange: Exchange) -> SpanContext | None:
        return self.context

    def subject_of(self, exchange: Exchange) -> Subject:
        first = next(topic for topic in self._request.topics if topic.partitions)
        topic = self._data_path.routes.topic_by_id(first.topic_id) if first.topic_id is not None else None
        name = first.name or (topic.name if topic is not None else "")
        return partition_subject(name, first.partitions[0].partition_index)

    def _expect(self, size: int) -> None:
        self._data_path.answers.expected += size - self._expected
        self._expected = size

    def _left_ms(self) -> int:
        """The wait that the node may take: the client's max_wait at first, and what remains of it at a retry."""
        if not self._is_retry:
            return self._max_wait_ms
        return max(0, self._max_wait_ms - int((asyncio.get_running_loop().time() - self._started_at) * 1000))

    def follow(self) -> None:
        """Follows a new image while the request is in flight. The plan may name another node by now."""
        new_plan = self._make_plan()
        if new_plan.asks_the_same(self._plan) or not self._in_flight:
            return
        self._take_back()
        self._is_retry = True
        self._ask()

    def _try_again(self) -> None:
        """Retries when a node may be reachable. Answers without records when the client's max_wait is over."""
        self._is_retry = True
        now = asyncio.get_running_loop().time()
        self._exchange.note_asked(now)
        left_s = self._deadline - now
        if left_s <= 0:
            self._answer({})
        else:
            self._run(partial(self._ask_later, left_s))

    async def _ask_later(self, left_s: float) -> None:
        may_retry = asyncio.Event()
        self._data_path.delayed_requests.wait(may_retry.set)
        try:
            async with asyncio.timeout(left_s):
                await may_retry.wait()
        except TimeoutError:
            pass
        finally:
            self._data_path.delayed_requests.remove(may_retry.set)
        self._task = None
        self._ask()

    # --- answering ----------------------------------------------------------------------------------------------------

    def __call__(self, outcome: Response | Exception) -> None:
        self._in_flight = False
        self.answered_at = self._data_path.now()
        if self._expected:
            self._expect(0)
        try:
            self._on_outcome(outcome)
        except Exception:
            self._give_up()

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `work` in a task. The coroutine is made inside: a task cancelled before its first step would leave one never
        awaited."""
        self._task = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception:
            self._give_up()

    def _give_up(self) -> None:
        """Closes the connection of a request that can get no answer. Called from an `except` block."""
        log.exception("fetch not answered", extra=fields(version=self._exchange.api_version))
        self._exchange.close("internal", "no answer to a Fetch")

    def _on_outcome(self, outcome: Response | Exception) -> None:
        requested, results = self._plan.requested, self._plan.results
        try:
            if isinstance(outcome, Exception):
                raise outcome
            reply = unpack(FetchReply, outcome.body)
            fetched = reply.partitions
            self._exchange.waited_as_asked_s += reply.waited_ms / 1000
            if len(fetched) != len(requested):
                raise ContractError(f"{len(fetched)} results for {len(requested)} partitions")
        except RpcError as error:
            for slot, _ in requested:
                results[slot] = Fetched(error.code)
            self._answer({})
            return
        except RpcFailure:
            self._try_again()
            return
        except ContractError as error:
            log.warning("fetch failed", extra=fields(error=str(error)))
            self._exchange.close("internal", "a storage node's answer cannot be read")
            return
        records: dict[int, Sequence[Part]] = {}
        ranges: Ranges = {}
        position = 0
        for (slot, _), result in zip(requested, fetched, strict=True):
            results[slot] = result
            if result.inline_length:
                records[slot] = (outcome.payload[position : position + result.inline_length],)
                position += result.inline_length
            elif result.ranges:
                ranges[slot] = result.ranges
        if not ranges:
            self._answer(records)
            return
        assert self._node is not None
        # The incarnation that has just answered: file ids mean nothing in a later one.
        incarnation = self._node.incarnation
        opened = pin(self._data_path.files, self._node, incarnation, ranges)
        if opened is not None:
            records |= parts(ranges, opened, self._data_path.sendfile_bytes_min)
            if self._shortcut is not None:
                topic_id = requested[0][1][0]
                self._shortcut.learn_answer(self._node, incarnation, topic_id, fetched[0], records.get(0, ()))
            self._answer(records)
        else:
            self._run(partial(self._open_and_answer, self._node, incarnation, ranges, records))

    async def _open_and_answer(
        self, node: StorageNode, incarnation: int, ranges: Ranges, records: dict[int, Sequence[Part]]
    ) -> None:
        try:
            opened = await open_and_pin(self._data_path.files, node, incarnation, ranges)
        except (FileGone, RpcFailure, ContractError) as error:
            data_path = self._data_path
            data_path.meters.files_not_opened += 1
            details = {"node": node.node_id, "error": str(error)}
            data_path.files.not_opened_lines.write(node.node_id, logging.INFO, "segment file not opened", **details)
            if isinstance(error, (FileGone, RpcError)) and not self._inline:
                # The file is deleted, or a process is out of descriptors. The bytes can be had without one.
                self._inline = self._is_retry = True
                self._task = None
                self._ask()
                return
            for slot, _ in self._plan.requested:
                self._plan.results[slot] = Fetched(KAFKA_STORAGE_ERROR)
            self._try_again()
            return
        self._task = None
        self._answer(records | parts(ranges, opened, self._data_path.sendfile_bytes_min))

    def _answer(self, records: dict[int, Sequence[Part]]) -> None:
        self._finish(0, records)

    def _finish(self, error: int, records: dict[int, Sequence[Part]]) -> None:
        exchange, results = self._exchange, self._plan.results
        if self._shortcut is not None and fetch_response.is_plain(results[0]):
            result, sole_records = results[0], records.get(0, ())
            length = length_of(sole_records)
            bounds = result.high_watermark, result.last_stable_offset, result.log_start_offset
            before, after = self._shortcut.template.answer(exchange.correlation_id, *bounds, length, result.aborted)
            exchange.finish((before, *sole_records, after))
            return
        exchange.finish(fetch_response.frame(self._data_path, exchange, self._request, error, results, records))

    def _hang_up(self) -> None:
        self._take_back()
        if self._task is not None:
            self._task.cancel()

    def _take_back(self) -> None:
        if self._in_flight and self._node is not None:
            self._in_flight = False
            self._node.client.cancel(self.request_id)
            if self._expected:
                self._expect(0)
