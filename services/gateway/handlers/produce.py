"""Produce (0), versions 3-13 (advertised from 0, as Kafka does: KAFKA-18659, older librdkafka disables compression otherwise).

v3 transactional id · v7 zstd · v8 record errors · v9 flexible · v10 current leader, node endpoints · v11 TRANSACTION_ABORTABLE ·
v12 adds partitions to transactions · v13 topic ids.

The hot path: called in the turn in which the frame was read, no task per request; records are views of the receive buffer from
here to the storage node's socket. What is inside a batch is the leader's to check; here only what the request alone tells.

Differences from Kafka: a partition named twice in one request answers INVALID_REQUEST (Kafka stores one of the two);
transactional batches answer INVALID_TXN_STATE, TRANSACTION_ABORTABLE from v11, as Kafka does for a transaction that its
coordinator does not know, since there are no transactions yet.
"""

import struct
from collections.abc import Sequence

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.storage import Appended
from libs.wire.api import ApiKey
from libs.wire.batch_layout import CODEC_MASK, FLAGS_AT, HEADER_SIZE, TRANSACTIONAL
from libs.wire.errors import ErrorCode
from libs.wire.headers import write_response_header
from libs.wire.messages.endpoints import NodeEndpoint
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, read_produce, write_produce_response
from libs.wire.primitives import Reader, Writer
from services.gateway.appends import NOT_LEADER, UNKNOWN_TOPIC_ID
from services.gateway.batch import Batch
from services.gateway.core.produce_shape import FIRST_WITH_ZSTD, ZSTD, ProduceShape, learn
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.news import tell

VALID_ACKS = (-1, 0, 1)
FIRST_WITH_HINTS = 10
FIRST_WITH_ABORTABLE = 11
FIRST_WITH_TOPIC_IDS = 13

_LENGTH = struct.Struct(">i")


class PendingProduce:
    """A request whose batches are at the leaders. Answered when the last one is settled."""

    __slots__ = (
        "_data_path",
        "_exchange",
        "_repeatable",
        "_results",
        "_topics",
        "_unsettled",
        "acks",
        "gone",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, data_path: DataPath, exchange: Exchange, request: ProduceRequest) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._topics: list[ProducedTopic] = []
        self._results: list[ProducedPartition] = []  # of all topics, by slot
        self._unsettled = 0
        self._repeatable = False
        self.acks = request.acks
        self.timeout_ms = max(0, request.timeout_ms)
        self.transactional_id = request.transactional_id
        self.gone = False

    def start(self, request: ProduceRequest) -> None:
        # The request itself is not kept: its views would hold the receive buffer, also of what is copied or stored already.
        batches = self._admit(request)
        self._unsettled = len(batches)
        self._repeatable = all(batch.producer is not None for batch in batches)
        if batches:
            self._exchange.on_hang_up = self._hang_up
            self._data_path.appends.submit(batches)
        else:
            self._answer()

    def settle(self, slot: int, result: Appended) -> None:
        if self.gone:
            return
        produced = self._results[slot]
        if result.error == 0:
            produced.base_offset = result.base_offset
            produced.log_append_time_ms = result.log_append_time_ms
        else:
            produced.error_code = result.error
            produced.record_errors = result.record_errors
            produced.leader_id, produced.leader_epoch = result.leader, result.leader_epoch
        produced.log_start_offset = result.log_start_offset
        produced.error_message = result.message
        self._unsettled -= 1
        if not self._unsettled:
            self._answer()

    def sent(self, now: float) -> None:
        self._exchange.sent_at = now

    def give_up(self) -> None:
        self.gone = True
        self._exchange.close("internal", "no answer to a Produce")

    def may_overtake_nothing(self) -> bool:
        return self._exchange.connection.is_alone(self._exchange)

    def _hang_up(self) -> None:
        self.gone = True
        self._data_path.appends.hang_up(self)

    def _admit(self, request: ProduceRequest) -> list[Batch]:
        """Checks each partition; those that pass become batches, the others have their error already."""
        data_path, results = self._data_path, self._results
        version = self._exchange.api_version
        routes = data_path.routes
        for_all = _refuse_all(request)
        batches: list[Batch] = []
        for topic in request.topics:
            if topic.topic_id is not None:
                route, unknown = routes.topic_by_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
            else:
                route, unknown = routes.topic(topic.name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answered: list[ProducedPartition] = []
            for index, records in topic.partitions:
                error = for_all or (self._refuse(version, route, index, records) if route is not None else int(unknown))
                if not error:
                    assert route is not None
                    assert records is not None
                    batches.append(Batch(self, len(results), route, index, records, next(data_path.orders)))
                produced = ProducedPartition(index, error)
                answered.append(produced)
                results.append(produced)
            if answered:  # as in Kafka, a topic without partitions is not mentioned
                self._topics.append(ProducedTopic(topic.name, topic.topic_id, answered))
        return batches if len(batches) < 2 else self._without_doubles(batches)

    def _refuse(self, version: int, route: TopicRoute, index: int, records: memoryview | None) -> int:
        if route.internal or route.name in INTERNAL_TOPICS:  # storage refuses it too: only its coordinator writes there
            return int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if route.partition(index) is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not records:
            return int(ErrorCode.INVALID_RECORD)  # no batch at all
        if len(records) >= HEADER_SIZE:
            attributes = records[FLAGS_AT]
            if attributes & CODEC_MASK == ZSTD and version < FIRST_WITH_ZSTD:
                return int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            if attributes & TRANSACTIONAL:
                abortable = version >= FIRST_WITH_ABORTABLE
                return int(ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE)
        return 0

    def _without_doubles(self, batches: list[Batch]) -> list[Batch]:
        seen: dict[tuple[bytes, int], int] = {}
        for batch in batches:
            seen[batch.key] = seen.get(batch.key, 0) + 1
        if len(seen) == len(batches):
            return batches
        for batch in batches:
            if seen[batch.key] > 1:
                self._results[batch.slot].error_code = int(ErrorCode.INVALID_REQUEST)
        return [batch for batch in batches if seen[batch.key] == 1]

    def _answer(self) -> None:
        _answer(self._data_path, self._exchange, self.acks, self._topics, self._repeatable)


class SoleProduce(Batch):
    """A request with one batch, of a known shape: request and batch in one, and an answer made from numbers alone."""

    __slots__ = ("_data_path", "_exchange", "_shape", "acks", "gone", "timeout_ms", "transactional_id")

    def __init__(
        self, data_path: DataPath, exchange: Exchange, shape: ProduceShape, topic: TopicRoute, index: int, records: memoryview
    ) -> None:
        self.request = self
        self.slot = 0
        self.topic = topic
        self.partition = index
        self.records = records
        self.order = next(data_path.orders)
        self.deadline = 0.0
        self.refused_in = -1
        self.acks = shape.acks
        self.timeout_ms = shape.timeout_ms
        self.transactional_id: str | None = None
        self.gone = False
        self._shape = shape
        self._data_path = data_path
        self._exchange = exchange

    def stored(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        if not self.gone:
            exchange = self._exchange
            if exchange.connection.told is not self._data_path.routes.addresses and self._shape.version >= FIRST_WITH_HINTS:
                self.settle(0, Appended(0, base_offset, log_append_time_ms, log_start_offset))
                return
            exchange.finish(
                self._shape.answer(exchange.correlation_id, self.partition, base_offset, log_append_time_ms, log_start_offset)
            )
            del self.request  # a cycle would keep the receive buffer until the next garbage collection

    def settle(self, slot: int, result: Appended) -> None:
        if not self.gone:
            topic = ProducedTopic(self._shape.name, self._shape.topic_id, [_produced(self.partition, result)])
            _answer(self._data_path, self._exchange, self.acks, [topic], self.producer is not None)
            del self.request

    def sent(self, now: float) -> None:
        self._exchange.sent_at = now

    def give_up(self) -> None:
        self.gone = True
        self._exchange.close("internal", "no answer to a Produce")

    def may_overtake_nothing(self) -> bool:
        return self._exchange.connection.is_alone(self._exchange)

    def hang_up(self) -> None:
        self.gone = True
        self._data_path.appends.hang_up(self)


def _produced(index: int, result: Appended) -> ProducedPartition:
    if result.error == 0:
        return ProducedPartition(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)
    return ProducedPartition(
        index,
        result.error,
        log_start_offset=result.log_start_offset,
        record_errors=result.record_errors,
        error_message=result.message,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
    )


def _answer(data_path: DataPath, exchange: Exchange, acks: int, topics: list[ProducedTopic], repeatable: bool) -> None:
    version = exchange.api_version
    if version < FIRST_WITH_TOPIC_IDS:
        _name_topics(topics)
    errors = [produced.error_code for topic in topics for produced in topic.partitions if produced.error_code]
    for error in errors:
        data_path.meters.produce_failed(error)
    if acks == 0:
        if errors:
            # Nobody waits for an answer; a lost connection is the only way to say it, and Kafka's.
            exchange.close("acks-0", f"error {errors[0]}")
        else:
            exchange.finish(None)
        return
    writer = Writer()
    writer.buffer += b"\0\0\0\0"
    write_response_header(writer, ApiKey.PRODUCE, version, exchange.correlation_id)
    endpoints: Sequence[NodeEndpoint] = ()
    if version >= FIRST_WITH_HINTS:
        if errors and (leaders := _hint(data_path.routes, topics, NOT_LEADER)):
            endpoints = data_path.endpoints(leaders, exchange.connection)
        elif not errors and (endpoints := tell(data_path, exchange, repeatable=repeatable)):
            _hint(data_path.routes, topics, 0)
    write_produce_response(writer, version, topics, 0, endpoints)
    _LENGTH.pack_into(writer.buffer, 0, len(writer.buffer) - 4)
    exchange.finish(writer.buffer)


def _name_topics(topics: list[ProducedTopic]) -> None:
    """Leaders know topics by their ids; clients that name them do not know the error for an unknown id."""
    for topic in topics:
        for produced in topic.partitions:
            if produced.error_code == UNKNOWN_TOPIC_ID:
                produced.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _hint(routes: Routes, topics: list[ProducedTopic], answered: int) -> set[int]:
    """Fills in the leaders of partitions answered with that error (KIP-951); those named."""
    leaders: set[int] = set()
    for topic in topics:
        route = routes.topic_by_id(topic.topic_id) if topic.topic_id is not None else routes.topic(topic.name or "")
        for produced in topic.partitions:
            if produced.error_code != answered:
                continue
            known = route.partition(produced.index) if route is not None else None
            if known is not None and known.leader >= 0 and known.leader_epoch >= produced.leader_epoch:
                produced.leader_id, produced.leader_epoch = known
            if produced.leader_id >= 0:
                leaders.add(produced.leader_id)
    return leaders


def _refuse_all(request: ProduceRequest) -> int:
    """The error that every partition of the request gets, 0 if none."""
    if request.acks not in VALID_ACKS:
        return int(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is None:
        for topic in request.topics:
            for _, records in topic.partitions:
                if records is not None and len(records) >= HEADER_SIZE and records[FLAGS_AT] & TRANSACTIONAL:
                    return int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return 0


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> ProduceShape | None:
    """Raises ProtocolError. The answer may be known before this returns, or long after.

    Returns the request's shape, if it has one, for `begin_alike` of the requests that follow.
    """
    request = read_produce(reader, exchange.api_version)
    reader.expect_end()
    shape = learn(reader.view, exchange.api_version, exchange.client_id, request)
    PendingProduce(data_path, exchange, request).start(request)
    return shape


def begin_alike(data_path: DataPath, exchange: Exchange, shape: ProduceShape, frame: memoryview) -> bool:
    """False: the frame is not of this shape, or has an error; nothing was begun. Call `data_path.appends.flush` after a turn."""
    found = shape.match(frame)
    if found is None:
        return False
    routes = data_path.routes
    topic = routes.topic(shape.name) if shape.name is not None else routes.topic_by_id(shape.topic_id or b"")
    if topic is None or topic.internal or topic.partition(found.partition) is None or topic.name in INTERNAL_TOPICS:
        return False
    exchange.api_version = shape.version
    exchange.correlation_id = found.correlation_id
    exchange.client_id = shape.client_id
    batch = SoleProduce(data_path, exchange, shape, topic, found.partition, found.records)
    exchange.on_hang_up = batch.hang_up
    data_path.appends.stage(batch)
    return True
