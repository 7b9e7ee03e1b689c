"""Produces that repeat an earlier one of their connection: the hot path."""

import struct
from collections.abc import Sequence
from typing import Final

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.storage import Appended
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest
from services.gateway.appends.batch import Batch, Stored
from services.gateway.core import produce_template
from services.gateway.core.produce_template import Match, ProduceTemplate
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_traces import RequestTraces
from services.gateway.produce.produce_response import FIRST_WITH_HINTS, fill_in, respond
from services.gateway.shortcuts.produce_run import BYTES_MAX, REQUESTS_MAX, ProduceRun

CORRELATION_ID_AT = 4
_CORRELATION_ID = struct.Struct(">i")


class ProduceShortcut:
    """The shortcut of one topic's Produces with one batch. `topic` is None where the gateway refuses them."""

    misses_max: Final = 8
    __slots__ = ("_data_path", "_template", "client_id", "generation", "match", "misses", "topic", "version")

    def __init__(self, data_path: DataPath, template: ProduceTemplate) -> None:
        self.version = template.version
        self.client_id = template.client_id
        self.misses = 0
        self.match = template.match
        self._template = template
        self._data_path = data_path
        self.topic: TopicRoute | None = None
        self.renew(data_path.routes)

    def renew(self, routes: Routes) -> None:
        template, self.generation = self._template, routes.generation
        topic = routes.topic(template.name) if template.name is not None else routes.topic_by_id(template.topic_id or b"")
        self.topic = None if topic is None or topic.internal or topic.name in INTERNAL_TOPICS else topic

    def begin(self, exchange: Exchange, match: Match) -> bool:
        topic, (partition, records) = self.topic, match
        if topic is None or topic.partition(partition) is None:
            return False
        exchange.connection.produced.note((topic.topic_id, partition), records, exchange.received_at)
        self._data_path.traces.look(exchange, records)
        batch = RepeatedProduce(self._data_path, exchange, self._template, topic, partition, records)
        exchange.on_hang_up = batch.hang_up
        self._data_path.appends.stage(batch)
        return True


class RepeatedProduce(Batch):
    """A request that the template has recognised, and its batch, in one object. The template writes its response, which consists
    of numbers alone."""

    __slots__ = ("_data_path", "_template", "acks", "exchange", "gone", "produce_version", "timeout_ms", "transactional_id")
    run: ProduceRun | None

    def __init__(
        self,
        data_path: DataPath,
        exchange: Exchange,
        template: ProduceTemplate,
        topic: TopicRoute,
        index: int,
        records: memoryview,
        order: int | None = None,
    ) -> None:
        """`order`: None for the next."""
        self.request = self
        self.slot = 0
        self.topic = topic
        self.partition = index
        self.records = records
        self.order = next(data_path.orders) if order is None else order
        self.deadline = 0.0
        self.refused_epoch = -1
        self.run = None
        self.acks = template.acks
        self.timeout_ms = template.timeout_ms
        self.transactional_id: str | None = None
        self.produce_version = 0
        self.gone = False
        self._template = template
        self._data_path = data_path
        self.exchange = exchange

    def joins(self, frame: memoryview, traces: RequestTraces) -> bool:
        template, exchange, size = self._template, self.exchange, len(frame)
        if not template.names(self.partition, frame) or exchange.requests >= REQUESTS_MAX or exchange.size + size > BYTES_MAX:
            return False
        match = template.match(frame)
        if match is None or traces.wants(match.records, exchange.received_at):
            return False
        if self.run is None:
            self.run = exchange.run = ProduceRun(self)
        exchange.connection.join(exchange, size)
        correlation_id: int = _CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)[0]
        self.run.add(correlation_id, size, match.records, next(self._data_path.orders))
        return True

    def behind(self, exchange: Exchange, records: memoryview, order: int) -> "RepeatedProduce":
        """The batch of a request that had joined this one's."""
        batch = RepeatedProduce(self._data_path, exchange, self._template, self.topic, self.partition, records, order)
        exchange.on_hang_up = batch.hang_up
        return batch

    def may_end_whole(self, now: float, behind: Exchange | None) -> bool:
        exchange, data_path = self.exchange, self._data_path
        if self.gone or (self.run is not None and exchange.run is None):
            return False
        connection = exchange.connection
        knows = connection.known_addresses is data_path.routes.addresses or self._template.version < FIRST_WITH_HINTS
        use = exchange.quota_use
        owes = use is not None and (use.paid_from is None or use.paid_from.tokens < 0.0)
        is_slow = now - exchange.received_at > data_path.traces.slow_s
        return knows and not owes and not is_slow and connection.leaves_next(exchange, behind)

    def answer_all(self, correlation_ids: Sequence[int], results: Sequence[Stored]) -> None:
        """Answers its request and those that have joined it, whose correlation ids these are."""
        answer, partition = self._template.answer, self.partition
        ids = (self.exchange.correlation_id, *correlation_ids)
        self.exchange.finish(b"".join([answer(each, partition, *result) for each, result in zip(ids, results, strict=True)]))
        del self.request, self.run  # cycles would keep the receive buffer until the next garbage collection

    def stored(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        if not self.gone:
            exchange = self.exchange
            if (
                exchange.connection.known_addresses is not self._data_path.routes.addresses
                and self._template.version >= FIRST_WITH_HINTS
            ):
                self.settle(0, Appended(0, base_offset, log_append_time_ms, log_start_offset))
                return
            exchange.finish(
                self._template.answer(exchange.correlation_id, self.partition, base_offset, log_append_time_ms, log_start_offset)
            )
            del self.request  # a cycle would keep the receive buffer until the next garbage collection

    def settle(self, slot: int, result: Appended) -> None:
        if not self.gone:
            produced = ProducedPartition(self.partition)
            fill_in(produced, result)
            topic = ProducedTopic(self._template.name, self._template.topic_id, [produced])
            respond(self._data_path, self.exchange, self.acks, [topic], self.producer is not None)
            del self.request

    def hang_up(self) -> None:
        self._data_path.appends.hang_up(self)


def learn(data_path: DataPath, exchange: Exchange, frame: memoryview, request: ProduceRequest) -> ProduceShortcut | None:
    """The shortcut of a request that was parsed from `frame`. None: it has none."""
    template = produce_template.learn(frame, exchange.api_version, exchange.client_id, request)
    return ProduceShortcut(data_path, template) if template is not None else None
