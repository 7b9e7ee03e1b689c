"""A ListOffsets for one partition, sent to its leader without a task and answered with one offset.

Spark's connector asks for both ends of a partition after each poll of 500 records, so such requests come by the thousand. What
needs more than one answer of the known leader is left to the handler (`services/gateway/handlers/list_offsets.py`).

A lookup by timestamp is not left to it once the leader has received it (`services/gateway/core/lookups.py`).
"""

import asyncio
from collections.abc import Callable

from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import LIST_OFFSETS, ListOffsetsReply
from libs.rpc.messages.errors import ContractError, DeadlineExceeded, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from services.gateway.core.lookups import is_lookup, lookup_timeout_s
from services.gateway.core.routing import PartitionRoute, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange

TIMEOUT_S = 1.0
"""The longest wait for the leader. The handler asks again then."""

_API = ServedApi(APIS[ApiKey.LIST_OFFSETS])


def send(
    data_path: DataPath, exchange: Exchange, topic: TopicRoute, request: ListOffsetsRequest, by_handler: Callable[[], None]
) -> bool:
    """Sends a request for one partition of that topic. False: it has no leader that is connected, and nothing was begun."""
    (wanted,) = request.topics[0].partitions
    route = topic.partition(wanted.partition_index)
    node = data_path.nodes.ready(route.leader) if route is not None else None
    if route is None or node is None:
        return False
    by_timestamp = is_lookup(wanted.timestamp)
    pending = SingleListOffsets(
        data_path, exchange, topic, wanted.partition_index, route, node.client, by_handler, is_lookup=by_timestamp
    )
    timeout_s = lookup_timeout_s(exchange.api_version, request.timeout_ms) if by_timestamp else TIMEOUT_S
    query = [topic.topic_id, wanted.partition_index, wanted.timestamp, wanted.current_leader_epoch]
    body = [request.isolation_level, [query], request.replica_id]
    try:
        pending.request_id = node.client.send(LIST_OFFSETS, body, (), pending, timeout_s=timeout_s)
    except (Overloaded, Disconnected):
        return False
    exchange.on_hang_up = pending.take_back
    exchange.sent_at = asyncio.get_running_loop().time()
    return True


class SingleListOffsets:
    """One request while its leader has it. It is the RPC client's completion callback, through which image changes find it.

    `by_handler` is called instead of an answer, at most once: after a failure, an error of the leader, or a change of leader.
    """

    __slots__ = (
        "_by_handler",
        "_client",
        "_data_path",
        "_exchange",
        "_is_lookup",
        "_partition",
        "_route",
        "_topic",
        "request_id",
    )

    def __init__(
        self,
        data_path: DataPath,
        exchange: Exchange,
        topic: TopicRoute,
        partition: int,
        route: PartitionRoute,
        client: RpcClient,
        by_handler: Callable[[], None],
        *,
        is_lookup: bool,
    ) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._topic = topic
        self._partition = partition
        self._route = route
        self._client = client
        self._by_handler = by_handler
        self._is_lookup = is_lookup
        self.request_id = -1

    def follow(self) -> None:
        """Takes the request back if another node leads the partition by now: the former leader may never answer."""
        topic = self._data_path.routes.topic_by_id(self._topic.topic_id)
        if topic is None or topic.partition(self._partition) != self._route:
            self.take_back()
            if self._is_lookup:
                self._refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                self._exchange.on_hang_up = None
                self._by_handler()

    def __call__(self, outcome: Response | Exception) -> None:
        try:
            if isinstance(outcome, Response):
                (listed,) = unpack(ListOffsetsReply, outcome.body).partitions
                if not listed.error:
                    answer(
                        self._exchange,
                        self._topic,
                        ListOffsetsPartitionResponse(self._partition, 0, listed.timestamp, listed.offset, listed.leader_epoch),
                    )
                    return
                if self._is_lookup and listed.error == ErrorCode.REQUEST_TIMED_OUT:
                    self._refuse(ErrorCode.REQUEST_TIMED_OUT)
                    return
            elif self._is_lookup and isinstance(outcome, RpcFailure) and outcome.sent and not isinstance(outcome, RpcError):
                late = isinstance(outcome, DeadlineExceeded)
                self._refuse(ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
        except (ContractError, ValueError):
            pass  # the handler meets the same answer, and reports it
        self._exchange.on_hang_up = None
        self._by_handler()

    def _refuse(self, error: ErrorCode) -> None:
        self._data_path.meters.failed(self._exchange.api_key, error)
        answer(self._exchange, self._topic, ListOffsetsPartitionResponse(self._partition, error))

    def take_back(self) -> None:
        self._client.cancel(self.request_id)


def answer(exchange: Exchange, topic: TopicRoute, listed: ListOffsetsPartitionResponse) -> None:
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, [listed])])
    exchange.finish(_API.written(exchange.api_version, exchange.correlation_id, response))
