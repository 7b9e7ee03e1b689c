"""Produces that repeat an earlier one of their connection: the hot path."""

from typing import Final

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.wire.messages.produce import ProduceRequest
from services.gateway.core import produce_template
from services.gateway.core.produce_template import Match, ProduceTemplate
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.shortcuts.repeated_produce import RepeatedProduce


class ProduceShortcut:
    """The shortcut of one topic's Produces with one batch. `topic` is None where the gateway refuses them in `routes`."""

    misses_max: Final = 8
    __slots__ = ("_data_path", "_template", "client_id", "match", "misses", "routes", "topic", "version")

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
        template, self.routes = self._template, routes
        topic = routes.topic(template.name) if template.name is not None else routes.topic_by_id(template.topic_id or b"")
        self.topic = None if topic is None or topic.internal or topic.name in INTERNAL_TOPICS else topic

    def begin(self, exchange: Exchange, match: Match) -> bool:
        topic, (partition, records) = self.topic, match
        if topic is None or topic.partition(partition) is None:
            return False
        exchange.connection.produced.note((topic.topic_id, partition), records, exchange.received_at)
        batch = RepeatedProduce(self._data_path, exchange, self._template, topic, partition, records)
        exchange.on_hang_up = batch.hang_up
        self._data_path.appends.stage(batch)
        return True


def learn(data_path: DataPath, exchange: Exchange, frame: memoryview, request: ProduceRequest) -> ProduceShortcut | None:
    """The shortcut of a request that was parsed from `frame`. None: it has none."""
    template = produce_template.learn(frame, exchange.api_version, exchange.client_id, request)
    return ProduceShortcut(data_path, template) if template is not None else None
