"""A ListOffsets for one partition, sent to its leader without a task and answered with one offset.

Spark's connector asks for both ends of a partition after each poll of 500 records, so such requests come by the thousand. What
needs more than one answer of the known leader is left to the handler (`services/gateway/handlers/list_offsets.py`).
"""

import asyncio
from collections.abc import Callable

from libs.rpc.client import Response
from libs.rpc.contracts.storage import LIST_OFFSETS, ListOffsetsReply
from libs.rpc.errors import ContractError, Disconnected, Overloaded
from libs.rpc.schema import unpack
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from services.gateway.core.routing import PartitionRoute, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.peers.storage_nodes import StorageNode

TIMEOUT_S = 1.0
"""The longest wait for the leader. The handler asks again then."""

_API = ServedApi(APIS[ApiKey.LIST_OFFSETS])


class SoleListOffsets:
    """One request while its leader has it. It is the RPC client's completion callback, through which image changes find it.

    `by_handler` is called instead of an answer, at most once: after a failure, an error of the leader, or a change of leader.
    """

    __slots__ = ("_by_handler", "_data_path", "_exchange", "_node", "_partition", "_request_id", "_route", "_topic")

    def __init__(
        self, data_path: DataPath, exchange: Exchange, topic: TopicRoute, partition: int, by_handler: Callable[[], None]
    ) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._topic = topic
        self._partition = partition
        self._by_handler = by_handler
        self._route: PartitionRoute | None = None
        self._node: StorageNode | None = None
        self._request_id = -1

    def send(self, request: ListOffsetsRequest) -> bool:
        """False: the partition has no leader that is connected, and nothing was begun."""
        data_path = self._data_path
        route = self._topic.partition(self._partition)
        node = data_path.nodes.ready(route.leader) if route is not None else None
        if node is None:
            return False
        (wanted,) = request.topics[0].partitions
        query = [self._topic.topic_id, self._partition, wanted.timestamp, wanted.current_leader_epoch]
        body = [request.isolation_level, [query], request.replica_id]
        try:
            self._request_id = node.client.send(LIST_OFFSETS, body, (), self, timeout_s=TIMEOUT_S)
        except (Overloaded, Disconnected):
            return False
        self._route, self._node = route, node
        self._exchange.on_hang_up = self._take_back
        self._exchange.sent_at = asyncio.get_running_loop().time()
        return True

    def follow(self) -> None:
        """Takes the request back if another node leads the partition by now: the former leader may never answer."""
        topic = self._data_path.routes.topic_by_id(self._topic.topic_id)
        if topic is None or topic.partition(self._partition) != self._route:
            self._take_back()
            self._exchange.on_hang_up = None
            self._by_handler()

    def __call__(self, outcome: Response | Exception) -> None:
        try:
            if isinstance(outcome, Response):
                (listed,) = unpack(ListOffsetsReply, outcome.body).partitions
                if not listed.error:
                    described = ListOffsetsPartitionResponse(
                        self._partition, 0, listed.timestamp, listed.offset, listed.leader_epoch
                    )
                    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(self._topic.name, [described])])
                    exchange = self._exchange
                    exchange.finish(_API.written(exchange.api_version, exchange.correlation_id, response))
                    return
        except (ContractError, ValueError):
            pass  # the handler meets the same answer, and reports it
        self._exchange.on_hang_up = None
        self._by_handler()

    def _take_back(self) -> None:
        if self._node is not None:
            self._node.client.cancel(self._request_id)
