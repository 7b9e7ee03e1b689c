"""Fetches that repeat an earlier one of their connection at another offset.

One that continues the last answer is served from it (`sequential_fetch_cache.py`). One that jumps is served from its leader's
files (`offset_lookups.py`). The leader is asked for all others, and its answer is written by the template.
"""

from collections.abc import Sequence
from typing import Final

from libs.rpc.contracts.storage import Fetched
from libs.wire.messages.fetch import FetchRequest
from services.gateway.core import fetch_template
from services.gateway.core.fetch_template import FetchTemplate
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch.pending_fetch import PendingFetch
from services.gateway.fetch.record_ranges import Part
from services.gateway.peers.storage_nodes import StorageNode
from services.gateway.shortcuts import offset_lookups, sequential_fetch_cache


class FetchShortcut:
    """The shortcut of one partition's Fetches. `topic` is None where it is unknown."""

    misses_max: Final = 8
    __slots__ = ("_data_path", "client_id", "generation", "match", "misses", "template", "topic", "version")

    def __init__(self, data_path: DataPath, template: FetchTemplate) -> None:
        self.version = template.version
        self.client_id = template.client_id
        self.misses = 0
        self.match = template.match
        self.template = template
        self._data_path = data_path
        self.topic: TopicRoute | None = None
        self.renew(data_path.routes)

    def renew(self, routes: Routes) -> None:
        self.generation = routes.generation
        wanted = self.template.request.topics[0]
        self.topic = routes.topic_by_id(wanted.topic_id) if wanted.topic_id is not None else routes.topic(wanted.name or "")

    def begin(self, exchange: Exchange, offset: int) -> bool:
        data_path, template, topic = self._data_path, self.template, self.topic
        is_jump = template.sequential_read is not None and template.sequential_read.offset != offset
        if not sequential_fetch_cache.serve(data_path, exchange, template, topic, offset) and not offset_lookups.serve(
            data_path, exchange, template, topic, offset
        ):
            if is_jump:
                offset_lookups.note_jump(data_path, template, topic)
            PendingFetch(data_path, exchange, template.at(offset), self).start()
        return True

    def learn_answer(
        self, node: StorageNode, incarnation: int, topic_id: object, fetched: Fetched, parts: Sequence[Part]
    ) -> None:
        """Keeps what a leader's answer about `topic_id` says about the next fetch. `parts` are the bytes of its records."""
        data_path = self._data_path
        if self.generation != data_path.routes.generation:
            self.renew(data_path.routes)
        sequential_fetch_cache.learn(data_path, self.template, self.topic, node, incarnation, topic_id, fetched, parts)


def learn(data_path: DataPath, exchange: Exchange, frame: memoryview, request: FetchRequest) -> FetchShortcut | None:
    """The shortcut of a request that was parsed from `frame`. None: it has none."""
    template = fetch_template.learn(frame, exchange.api_version, exchange.client_id, request)
    return FetchShortcut(data_path, template) if template is not None else None
