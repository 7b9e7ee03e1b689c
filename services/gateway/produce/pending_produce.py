"""A Produce request whose batches are on their way."""

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.storage import Appended
from libs.wire.errors import ErrorCode
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest
from libs.wire.record_batches.batch_layout import CODEC_MASK, FLAGS_AT, HEADER_SIZE, TRANSACTIONAL
from services.gateway.appends.batch import Batch
from services.gateway.core.produce_template import FIRST_WITH_ZSTD, ZSTD
from services.gateway.core.routing import TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.produce.produce_response import fill_in, respond

VALID_ACKS = (-1, 0, 1)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class PendingProduce:
    """A request whose batches are on their way. It is answered when the last one is settled."""

    __slots__ = (
        "_data_path",
        "_repeatable",
        "_results",
        "_topics",
        "_unsettled",
        "acks",
        "exchange",
        "gone",
        "produce_version",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, data_path: DataPath, exchange: Exchange, request: ProduceRequest) -> None:
        self._data_path = data_path
        self.exchange = exchange
        self._topics: list[ProducedTopic] = []
        self._results: list[ProducedPartition] = []  # of all topics, by slot
        self._unsettled = 0
        self._repeatable = False
        self.acks = request.acks
        self.timeout_ms = max(0, request.timeout_ms)
        self.transactional_id = request.transactional_id
        self.produce_version = exchange.api_version
        self.gone = False

    def start(self, request: ProduceRequest) -> None:
        # The request is not kept: its views would hold the receive buffer of batches that are copied or stored already.
        batches = self._admit(request)
        if batches:
            self._data_path.traces.look(self.exchange, batches[0].records)
        self._unsettled = len(batches)
        self._repeatable = all(batch.producer is not None for batch in batches)
        for batch in batches:
            self.exchange.connection.produced.note(batch.key, batch.records, self.exchange.received_at)
        if batches:
            self.exchange.on_hang_up = self._hang_up
            self._data_path.appends.submit(batches)
        else:
            self._answer()

    def settle(self, slot: int, result: Appended) -> None:
        if self.gone:
            return
        fill_in(self._results[slot], result)
        self._unsettled -= 1
        if not self._unsettled:
            self._answer()

    def _hang_up(self) -> None:
        self._data_path.appends.hang_up(self)

    def _admit(self, request: ProduceRequest) -> list[Batch]:
        """Checks each partition. The valid ones become batches, and the others have their error already."""
        data_path, results = self._data_path, self._results
        version = self.exchange.api_version
        routes = data_path.routes
        request_error, denied = _request_error(request), self.exchange.denied
        batches: list[Batch] = []
        for topic in request.topics:
            if topic.topic_id is not None:
                route, unknown_topic = routes.topic_by_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
            else:
                route, unknown_topic = routes.topic(topic.name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_error = request_error or denied.get(topic.topic_id or topic.name or "", 0)
            partitions: list[ProducedPartition] = []
            for index, records in topic.partitions:
                error = topic_error or (
                    self._partition_error(version, route, index, records) if route is not None else int(unknown_topic)
                )
                if not error:
                    assert route is not None
                    assert records is not None
                    batches.append(Batch(self, len(results), route, index, records, next(data_path.orders)))
                elif records is not None and error == UNKNOWN_TOPIC_OR_PARTITION:
                    name = route.name if route is not None else topic.name
                    data_path.appends.returned(name or "", index, records, error)
                produced = ProducedPartition(index, error)
                partitions.append(produced)
                results.append(produced)
            if partitions:  # as in Kafka, a topic without partitions is not mentioned
                self._topics.append(ProducedTopic(topic.name, topic.topic_id, partitions))
        return batches if len(batches) < 2 else self._without_repeated(batches)

    def _partition_error(self, version: int, route: TopicRoute, index: int, records: memoryview | None) -> int:
        if route.internal or route.name in INTERNAL_TOPICS:  # only its coordinator writes there; storage refuses it, too
            return int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if route.partition(index) is None:
            return UNKNOWN_TOPIC_OR_PARTITION
        if not records:
            return int(ErrorCode.INVALID_RECORD)  # no batch at all
        if len(records) >= HEADER_SIZE:
            attributes = records[FLAGS_AT]
            if attributes & CODEC_MASK == ZSTD and version < FIRST_WITH_ZSTD:
                return int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        return 0

    def _without_repeated(self, batches: list[Batch]) -> list[Batch]:
        mentions: dict[tuple[bytes, int], int] = {}
        for batch in batches:
            mentions[batch.key] = mentions.get(batch.key, 0) + 1
        if len(mentions) == len(batches):
            return batches
        for batch in batches:
            if mentions[batch.key] > 1:
                self._results[batch.slot].error_code = int(ErrorCode.INVALID_REQUEST)
        return [batch for batch in batches if mentions[batch.key] == 1]

    def _answer(self) -> None:
        respond(self._data_path, self.exchange, self.acks, self._topics, self._repeatable)


def _request_error(request: ProduceRequest) -> int:
    """The error that every partition of the request gets, 0 if none."""
    if request.acks not in VALID_ACKS:
        return int(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is None:
        for topic in request.topics:
            for _, records in topic.partitions:
                if records is not None and len(records) >= HEADER_SIZE and records[FLAGS_AT] & TRANSACTIONAL:
                    return int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return 0
