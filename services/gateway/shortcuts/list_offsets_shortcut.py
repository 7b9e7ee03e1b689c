"""A ListOffsets for one partition: answered from the leader's files, or sent to the leader without a task."""

from collections.abc import Callable
from typing import NamedTuple

from libs.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest
from services.gateway.core.lookups import has_meaning
from services.gateway.core.routing import TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.shortcuts import offset_lookups, single_list_offsets

ISOLATION_LEVELS = (0, 1)
READ_COMMITTED = 1


class SinglePartition(NamedTuple):
    """The only partition that a request asks for, and its topic."""

    request: ListOffsetsRequest
    topic: TopicRoute
    wanted: ListOffsetsPartition


class ListOffsetsShortcut:
    """One for the process. The image's routes are looked up with each request; log layouts know their own age and leader."""

    def match(self, data_path: DataPath, exchange: Exchange, request: ListOffsetsRequest) -> SinglePartition | None:
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.isolation_level not in ISOLATION_LEVELS:
            return None
        topic = data_path.routes.topic(request.topics[0].name)
        (wanted,) = request.topics[0].partitions
        if topic is None or not has_meaning(wanted.timestamp, exchange.api_version):
            return None
        return SinglePartition(request, topic, wanted)

    def begin(self, data_path: DataPath, exchange: Exchange, match: SinglePartition, by_handler: Callable[[], None]) -> bool:
        request, topic, wanted = match
        index = wanted.partition_index
        route = topic.partition(index)
        if route is not None and wanted.timestamp >= 0 and wanted.current_leader_epoch in (-1, route.leader_epoch):
            committed = request.isolation_level == READ_COMMITTED
            record = offset_lookups.first_at(data_path, topic, index, route, wanted.timestamp, committed=committed)
            if record is not None:
                listed = ListOffsetsPartitionResponse(index, 0, record.timestamp, record.offset, record.leader_epoch)
                single_list_offsets.answer(exchange, topic, listed)
                return True
        return single_list_offsets.send(data_path, exchange, topic, request, by_handler)
