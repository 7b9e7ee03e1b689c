"""Fetch (1), versions 4-18.

v5 log start offset · v7 sessions · v9 leader epochs · v11 rack · v12 flexible, diverging epoch, current leader · v13 topic ids ·
v15 replica state · v16 node endpoints · v17, v18 for followers only.

One client Fetch is one RPC, to the node behind the addressed broker id; partitions that it does not lead answer error 6. The
node parks the request until there is enough to read, and answers file ranges: small ones are read into the response here, large
ones leave by sendfile, so records never enter Python. The RPC ends when the client hangs up. A consumer that reads on in a
backlog is served from what the last answer told (`read_on.py`), and one that jumps from its leader's files (`searches.py`).

Differences from Kafka: no fetch sessions yet (session id 0 is always a legal answer; an incremental request answers 70); a
fetch as a replica answers 29 for each partition, since followers pull by RPC. On the bootstrap port, which is no broker, the
request goes to the leader of the first partition that has one.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from libs.rpc.client import Response
from libs.rpc.contracts.storage import FETCH, Fetched, FetchReply
from libs.rpc.errors import ContractError, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchedPartition, FetchRequest, FetchResponseWriter, FetchTopic, read_fetch
from libs.wire.primitives import Reader
from services.gateway import read_on, searches
from services.gateway.core.fetch_shape import FULL_FETCHES, FetchShape, learn
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.files import FileGone
from services.gateway.nodes import StorageNode
from services.gateway.record_ranges import Part, Ranges, length_of, open_and_pin, parts, pin
from services.gateway.state import BOOTSTRAP

log = logging.getLogger(__name__)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FENCED = int(ErrorCode.FENCED_LEADER_EPOCH)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
FIRST_WITH_TOPIC_IDS = 13
NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)
FIRST_WITH_NOT_AVAILABLE = 11
ISOLATION_LEVELS = (0, 1)

PATIENCE_S = 10.0
"""On top of the client's max_wait, for the node to read and answer."""
RETRY_S_MAX = 5.0
RETRY_EVERY_S = 0.02


class PendingFetch:
    """A request from its checks to its answer. `_asked` are the partitions that the node was asked for, by slot."""

    __slots__ = (
        "_asked",
        "_asked_before",
        "_began",
        "_data_path",
        "_deadline",
        "_exchange",
        "_node",
        "_request",
        "_request_id",
        "_results",
        "_shape",
        "_task",
    )

    def __init__(self, data_path: DataPath, exchange: Exchange, request: FetchRequest, shape: FetchShape | None) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._request = request
        self._shape = shape
        self._results: list[Fetched] = []
        self._asked: list[tuple[int, list[object]]] = []
        self._node: StorageNode | None = None
        self._request_id: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked_before = False
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + min(max(0, request.max_wait_ms) / 1000, RETRY_S_MAX)

    def start(self) -> None:
        request = self._request
        if request.session_epoch not in FULL_FETCHES:
            self._finish(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), {})
            return
        self._exchange.on_hang_up = self._hang_up
        self._ask()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        leader = self._resolve()
        if leader is None:
            self._answer({})
            return
        node = self._data_path.nodes.ready(leader)
        if node is None or not self._send(node):
            self._try_again()

    def _resolve(self) -> int | None:
        """Sorts the request's partitions into those to ask for and those with an error; the node to ask, None if nobody."""
        routes, request = self._data_path.routes, self._request
        leader = self._exchange.connection.broker_id
        self._results, self._asked = [], []
        for_all = _refuse_all(request)
        for topic in request.topics:
            route, unknown = _route(routes, topic)
            for partition in topic.partitions:
                known = route.partition(partition.partition_index) if route is not None else None
                if for_all:
                    self._results.append(Fetched(for_all))
                    continue
                if route is None or known is None:
                    self._results.append(Fetched(unknown))
                    continue
                if leader == BOOTSTRAP and known.leader >= 0:
                    leader = known.leader
                if known.leader != leader or leader < 0:
                    self._results.append(Fetched(NOT_LEADER, leader=known.leader, leader_epoch=known.leader_epoch))
                    continue
                # As contracts/storage.py has FetchPartition.
                asked: list[object] = [route.topic_id, *partition]
                self._asked.append((len(self._results), asked))
                self._results.append(Fetched(NOT_LEADER, leader=known.leader, leader_epoch=known.leader_epoch))
        return leader if self._asked else None

    def _send(self, node: StorageNode) -> bool:
        request = self._request
        # Kafka answers at once when any partition has an error.
        wait = len(self._asked) == len(self._results)
        max_wait_ms = self._left_ms() if wait else 0
        body = [
            max_wait_ms,
            request.min_bytes,
            min(request.max_bytes, self._data_path.config.fetch_bytes_max),
            request.isolation_level,
            [asked for _, asked in self._asked],
            not node.same_host,
            -1,
        ]
        try:
            self._request_id = node.client.send(FETCH, body, (), self._on_reply, timeout_s=max_wait_ms / 1000 + PATIENCE_S)
        except (Overloaded, Disconnected):
            return False
        self._node = node
        self._exchange.sent_at = asyncio.get_running_loop().time()
        return True

    def _left_ms(self) -> int:
        """Of the client's max_wait: all of it at first, and what remains when we ask again."""
        max_wait_ms = max(0, self._request.max_wait_ms)
        if not self._asked_before:
            return max_wait_ms
        return max(0, max_wait_ms - int((asyncio.get_running_loop().time() - self._began) * 1000))

    def _try_again(self) -> None:
        """A read may be asked for again, whether it was sent or not."""
        if asyncio.get_running_loop().time() >= self._deadline:
            self._answer({})
            return
        self._asked_before = True
        self._run(self._ask_later())

    async def _ask_later(self) -> None:
        await asyncio.sleep(RETRY_EVERY_S)
        self._task = None
        self._ask()

    # --- answering ----------------------------------------------------------------------------------------------------

    def _on_reply(self, outcome: Response | Exception) -> None:
        self._request_id = None
        try:
            self._replied(outcome)
        except Exception:
            self._give_up()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self._give_up()

    def _give_up(self) -> None:
        """In an `except`: it can have no answer, so its connection ends."""
        log.exception("fetch not answered", extra=fields(version=self._exchange.api_version))
        self._exchange.close("internal", "no answer to a Fetch")

    def _replied(self, outcome: Response | Exception) -> None:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            fetched = unpack(FetchReply, outcome.body).partitions
            if len(fetched) != len(self._asked):
                raise ContractError(f"{len(fetched)} results for {len(self._asked)} partitions")
        except RpcError as error:
            for slot, _ in self._asked:
                self._results[slot] = Fetched(error.code)
            self._answer({})
            return
        except RpcFailure:
            self._try_again()
            return
        except ContractError as error:
            log.warning("fetch failed", extra=fields(error=str(error)))
            self._exchange.close("internal", "bad answer of a storage node")
            return
        records: dict[int, Sequence[Part]] = {}
        ranges: Ranges = {}
        position = 0
        for (slot, _), result in zip(self._asked, fetched, strict=True):
            self._results[slot] = result
            if result.inline_length:
                records[slot] = (outcome.payload[position : position + result.inline_length],)
                position += result.inline_length
            elif result.ranges:
                ranges[slot] = result.ranges
        if not ranges:
            self._answer(records)
            return
        assert self._node is not None
        # Of the process that has just answered, and not of one that may follow it: file ids mean nothing in another.
        incarnation = self._node.incarnation
        opened = pin(self._data_path.files, self._node, incarnation, ranges)
        if opened is not None:
            records |= parts(ranges, opened, self._data_path.config.sendfile_bytes_min)
            if self._shape is not None:
                topic_id = self._asked[0][1][0]
                read_on.learn(self._data_path, self._shape, self._node, incarnation, topic_id, fetched[0], records.get(0, ()))
            self._answer(records)
        else:
            self._run(self._open_and_answer(self._node, incarnation, ranges, records))

    async def _open_and_answer(
        self, node: StorageNode, incarnation: int, ranges: Ranges, records: dict[int, Sequence[Part]]
    ) -> None:
        try:
            opened = await open_and_pin(self._data_path.files, node, incarnation, ranges)
        except (FileGone, RpcFailure, ContractError) as error:
            log.info("segment file not opened", extra=fields(node=node.node_id, error=str(error)))
            for slot, _ in self._asked:
                self._results[slot] = Fetched(STORAGE_ERROR)
            self._try_again()
            return
        self._task = None
        self._answer(records | parts(ranges, opened, self._data_path.config.sendfile_bytes_min))

    def _answer(self, records: dict[int, Sequence[Part]]) -> None:
        self._finish(0, records)

    def _finish(self, error: int, records: dict[int, Sequence[Part]]) -> None:
        exchange, request = self._exchange, self._request
        if self._shape is not None and _is_plain(self._results[0]):
            result, of_sole = self._results[0], records.get(0, ())
            length = length_of(of_sole)
            before, after = self._shape.answer(
                exchange.correlation_id, result.high_watermark, result.last_stable_offset, result.log_start_offset, length
            )
            exchange.finish((before, *of_sole, after))
            return
        # As in Kafka, a topic without partitions is not mentioned.
        topics = [topic for topic in request.topics if topic.partitions] if not error else []
        writer: FetchResponseWriter[Part] = FetchResponseWriter(
            exchange.api_version, exchange.correlation_id, len(topics), error_code=error
        )
        leaders: set[int] = set()
        slot = 0
        for topic in topics:
            writer.begin_topic(topic.name, topic.topic_id, len(topic.partitions))
            for partition in topic.partitions:
                result = self._results[slot]
                state = self._state(partition.partition_index, result)
                if result.error in (NOT_LEADER, FENCED) and result.leader >= 0:
                    state.leader_id, state.leader_epoch = result.leader, result.leader_epoch
                    leaders.add(result.leader)
                of_slot: Sequence[Part] = records.get(slot, ())
                writer.partition(state, of_slot, length_of(of_slot))
                slot += 1
            writer.end_topic()
        endpoints = self._data_path.endpoints(leaders, exchange.connection) if leaders else ()
        exchange.finish(writer.finish(endpoints).pieces)

    def _state(self, index: int, result: Fetched) -> FetchedPartition:
        error = result.error
        if error == UNKNOWN_TOPIC_ID and self._exchange.api_version < FIRST_WITH_TOPIC_IDS:
            error = UNKNOWN_PARTITION  # leaders know topics by their ids; this client names them
        if error == NOT_AVAILABLE and self._exchange.api_version < FIRST_WITH_NOT_AVAILABLE:
            error = NOT_LEADER  # what every client asks again after
        return FetchedPartition(
            index,
            error,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            result.aborted if self._request.isolation_level or result.error in (UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID) else None,
            diverging_epoch=result.diverging_epoch,
            diverging_end_offset=result.diverging_end_offset,
        )

    def _hang_up(self) -> None:
        if self._request_id is not None and self._node is not None:
            self._node.client.cancel(self._request_id)
        if self._task is not None:
            self._task.cancel()


def _refuse_all(request: FetchRequest) -> int:
    if request.replica_id >= 0:
        return int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return 0 if request.isolation_level in ISOLATION_LEVELS else int(ErrorCode.INVALID_REQUEST)


def _route(routes: Routes, topic: FetchTopic) -> tuple[TopicRoute | None, int]:
    """The topic's route, and the error for what is not there."""
    if topic.topic_id is not None:
        route = routes.topic_by_id(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if route is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return route, int(unknown)
    return routes.topic(topic.name or ""), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _is_plain(result: Fetched) -> bool:
    """Nothing but records and their bounds, which is what a shape can answer."""
    return result.error == 0 and result.diverging_epoch < 0


def begin(data_path: DataPath, exchange: Exchange, reader: Reader, *, wants_shape: bool) -> FetchShape | None:
    """Raises ProtocolError. The answer may be known before this returns, or long after.

    Returns the request's shape, if that is wanted and it has one, for `begin_alike` of the requests that follow.
    """
    request = read_fetch(reader, exchange.api_version)
    reader.expect_end()
    shape = learn(reader.view, exchange.api_version, exchange.client_id, request) if wants_shape else None
    PendingFetch(data_path, exchange, request, None).start()
    return shape


def begin_alike(data_path: DataPath, exchange: Exchange, shape: FetchShape, frame: memoryview) -> bool:
    """False: the frame is not of this shape, and nothing was begun."""
    found = shape.match(frame)
    if found is None:
        return False
    exchange.api_version = shape.version
    exchange.correlation_id = found.correlation_id
    exchange.client_id = shape.client_id
    jumps = shape.read_on is not None and shape.read_on.offset != found.offset
    if not read_on.serve(data_path, exchange, shape, found.offset) and not searches.serve(
        data_path, exchange, shape, found.offset
    ):
        if jumps:
            searches.jumped(data_path, shape)
        PendingFetch(data_path, exchange, shape.at(found.offset), shape).start()
    return True
