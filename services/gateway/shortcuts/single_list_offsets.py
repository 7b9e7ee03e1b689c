"""A ListOffsets for one partition, sent to its leader without a task and answered with one offset.

Spark's connector asks for both ends of a partition after each poll of 500 records, so such requests come by the thousand. What
needs more than one answer of the known leader is left to the handler (`services/gateway/handlers/list_offsets.py`).

A lookup by timestamp is not left to it once the leader has received it (`services/gateway/core/lookups.py`).
"""

from collections.abc import Callable

from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import LIST_OFFSETS, ListOffsetsReply
from libs.rpc.messages.errors import ContractError, DeadlineExceeded, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
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
from services.gateway.core.request_spans import Subject, partition_subject
from services.gateway.core.routing import PartitionRoute, TopicRoute
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.peers.storage_nodes import StorageNode

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
        data_path, exchange, topic, wanted.partition_index, route, node, by_handler, is_lookup=by_timestamp
    )
    timeout_s = lookup_timeout_s(exchange.api_version, request.timeout_ms) if by_timestamp else TIMEOUT_S
    query = [topic.topic_id, wanted.partition_index, wanted.timestamp, wanted.current_leader_epoch]
    body = [request.isolation_level, [query], request.replica_id]
    packed = None
    if exchange.trace is not None:
        pending.context = data_path.traces.context_to_send(exchange.trace)
        packed = pack_context(pending.context)
    try:
        pending.request_id = node.client.send(LIST_OFFSETS, body, (), pending, timeout_s=timeout_s, trace=packed)
    except (Overloaded, Disconnected):
        return False
    exchange.on_hang_up = pending.take_back
    pending.sent_at = data_path.now()
    exchange.note_asked(pending.sent_at)
    exchange.asks(pending)
    return True


class SingleListOffsets:
    """One request while its leader has it. It is the RPC client's completion callback, through which image changes find it.

    `by_handler` is called instead of an answer, at most once: after a failure, an error of the leader, or a change of leader.
    """

    __slots__ = (
        "_by_handler",
        "_data_path",
        "_exchange",
        "_is_lookup",
        "_node",
        "_partition",
        "_route",
        "_topic",
        "answered_at",
        "context",
        "request_id",
        "sent_at",
    )

    def __init__(
        self,
        data_path: DataPath,
        exchange: Exchange,
        topic: TopicRoute,
        partition: int,
        route: PartitionRoute,
        node: StorageNode,
        by_handler: Callable[[], None],
        *,
        is_lookup: bool,
    ) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._topic = topic
        self._partition = partition
        self._route = route
        self._node = node
        self._by_handler = by_handler
        self._is_lookup = is_lookup
        self.request_id = -1
        self.sent_at = self.answered_at = 0.0
        self.context: SpanContext | None = None

    # --- what its trace is made of ------------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return LIST_OFFSETS

    @property
    def server(self) -> str:
        return process_name(STORAGE, self._node.node_id, self._node.incarnation)

    def part_of(self, exchange: Exchange) -> int:
        return 0

    def context_of(self, exchange: Exchange) -> SpanContext | None:
        return self.context

    def subject_of(self, exchange: Exchange) -> Subject:
        return partition_subject(self._topic.name, self._partition)

    # --- its answer ---------------------------------------------------------------------------------------------------

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
        self.answered_at = self._data_path.now()
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
        self._node.client.cancel(self.request_id)


def answer(exchange: Exchange, topic: TopicRoute, listed: ListOffsetsPartitionResponse) -> None:
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, [listed])])
    exchange.finish(_API.written(exchange.api_version, exchange.correlation_id, response))
