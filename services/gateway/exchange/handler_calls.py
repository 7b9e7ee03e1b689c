"""The RPC requests to storage nodes that a handler makes for one client request, as the client request's trace shows them."""

import asyncio

from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
from services.gateway.core.request_spans import Subject
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_traces import RequestTraces


class AskedNode:
    """One RPC request (`TracedCall`). It is noted with its exchange once it is sent."""

    __slots__ = (
        "_client",
        "_exchange",
        "_loop",
        "_node_id",
        "_subject",
        "answered_at",
        "context",
        "method",
        "request_id",
        "sent_at",
    )

    def __init__(self, exchange: Exchange, method: str, subject: Subject, context: SpanContext | None) -> None:
        self._exchange, self._subject = exchange, subject
        self._loop = asyncio.get_running_loop()
        self._client: RpcClient | None = None
        self._node_id = self.request_id = -1
        self.method = method
        self.context = context
        self.sent_at, self.answered_at = self._loop.time(), 0.0
        exchange.note_asked(self.sent_at)

    @property
    def packed(self) -> bytes | None:
        """What travels with the request. None: nobody decided on a trace."""
        return pack_context(self.context) if self.context is not None else None

    def sent(self, node_id: int, client: RpcClient, request_id: int, answer: "asyncio.Future[Response]") -> None:
        self._node_id, self._client, self.request_id = node_id, client, request_id
        self._exchange.asks(self)
        answer.add_done_callback(self._done)

    def _done(self, answer: "asyncio.Future[Response]") -> None:
        if not answer.cancelled():
            self.answered_at = self._loop.time()

    @property
    def server(self) -> str:
        peer = self._client.peer if self._client is not None else None
        return process_name(STORAGE, self._node_id, peer.incarnation if peer is not None else -1)

    def part_of(self, exchange: Exchange) -> int:
        return 0

    def context_of(self, exchange: Exchange) -> SpanContext | None:
        return self.context

    def subject_of(self, exchange: Exchange) -> Subject:
        return self._subject


class HandlerCalls:
    """Those of one exchange."""

    __slots__ = ("_exchange", "_traces")

    def __init__(self, exchange: Exchange, traces: RequestTraces) -> None:
        self._exchange, self._traces = exchange, traces

    def asks(self, method: str, subject: Subject) -> AskedNode:
        """Call it for each request that is about to be made."""
        trace = self._exchange.trace
        context = self._traces.context_to_send(trace) if trace is not None else None
        return AskedNode(self._exchange, method, subject, context)
