"""A Produce request with one batch, which a template has recognised."""

from libs.rpc.contracts.storage import Appended
from libs.wire.messages.produce import ProducedPartition, ProducedTopic
from services.gateway.appends.batch import Batch
from services.gateway.core.produce_template import ProduceTemplate
from services.gateway.core.routing import TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.produce.produce_response import FIRST_WITH_HINTS, respond


class RepeatedProduce(Batch):
    """Request and batch in one object. Its response consists of numbers alone, which the template writes."""

    __slots__ = ("_data_path", "_exchange", "_template", "acks", "gone", "produce_version", "timeout_ms", "transactional_id")

    def __init__(
        self,
        data_path: DataPath,
        exchange: Exchange,
        template: ProduceTemplate,
        topic: TopicRoute,
        index: int,
        records: memoryview,
    ) -> None:
        self.request = self
        self.slot = 0
        self.topic = topic
        self.partition = index
        self.records = records
        self.order = next(data_path.orders)
        self.deadline = 0.0
        self.refused_epoch = -1
        self.acks = template.acks
        self.timeout_ms = template.timeout_ms
        self.transactional_id: str | None = None
        self.produce_version = 0
        self.gone = False
        self._template = template
        self._data_path = data_path
        self._exchange = exchange

    def stored(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        if not self.gone:
            exchange = self._exchange
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
            topic = ProducedTopic(self._template.name, self._template.topic_id, [_produced(self.partition, result)])
            respond(self._data_path, self._exchange, self.acks, [topic], self.producer is not None)
            del self.request

    def sent(self, now: float) -> None:
        self._exchange.sent_at = now

    def give_up(self) -> None:
        self.gone = True
        self._exchange.close("internal", "no answer to a Produce")

    def may_be_resent(self) -> bool:
        return self._exchange.connection.is_only_request(self._exchange)

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
