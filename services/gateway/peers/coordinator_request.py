"""One request to the owner of a shard, whichever process that is by then. It ends with an answer, or with an error for the
client.

A request that was never sent goes to the next owner of the shard, for a bounded time. So does one that an owner refused without
acting on it: COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. The client only sees a pause. A request that was sent and not
answered is sent again only where repeating it changes nothing. All others answer NOT_COORDINATOR, and the client looks for the
coordinator again (docs/rules.md, hiding a failover).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.coordinators import AskReply
from libs.rpc.messages.errors import ContractError, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.telemetry.logs import fields
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
from libs.wire.api_keys import ApiKey
from libs.wire.apis import Api
from libs.wire.errors import ErrorCode
from services.gateway.authorization.access import EVERYBODY, Asker
from services.gateway.core.coordinator_shards import TRANSACTIONS, CoordinatorKind, CoordinatorShards
from services.gateway.core.request_spans import Subject, group_subject, transaction_subject
from services.gateway.exchange.exchange import Exchange
from services.gateway.peers.delayed_requests import DelayedRequests

log = logging.getLogger("network")

COORDINATOR_LOAD_IN_PROGRESS: Final = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
COORDINATOR_NOT_AVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)
REQUEST_TIMED_OUT: Final = int(ErrorCode.REQUEST_TIMED_OUT)
UNKNOWN_SERVER_ERROR: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)

TIMEOUT_S = 3.0
"""The time from a request's arrival for which a failover is hidden from its client."""
HEARTBEAT_TIMEOUT_S = 1.5
"""The same for heartbeats. librdkafka gives up a ConsumerGroupHeartbeat after 5 s. That includes the wait for an OffsetCommit
before it on the same connection, so both timeouts together must be less."""
FORMER_OWNER_TIMEOUT_S = 0.5
"""The time that a former owner has to answer a request it already has. One that is alive answers in less."""
REQUEST_TIMEOUT_S = 30.0
"""The timeout of one RPC. Kafka's clients give up after as much. An owner answers long before, unless it waits for other
members."""
PARKED_REQUEST_TIMEOUT_S = 2_150_000.0
"""The timeout of a join or sync, which waits for other members. Their rebalance timeout is at most an int32 of milliseconds."""

SUCCESS: Final = pack(AskReply(0))

Payload = bytes | bytearray | memoryview
OnResult = Callable[[int, Payload], None]
"""Called with an error and an answer. With error 0 the answer is the body of the response. INVALID_REQUEST: the coordinator
cannot read the request."""


class CoordinatorQuery(NamedTuple):
    """A request for a shard's owner. `body` is the client's, without its header, in `api_version`."""

    shard: int
    api: Api
    api_version: int
    body: bytes
    client_id: str
    client_host: str
    key: str = ""
    """The group or the transactional id that it is about. Empty: it is about several, or about all."""
    exchange: Exchange | None = None
    """The client's request, which may have a trace. None: a handler asks for it."""
    context: SpanContext | None = None
    """Of the span of the RPC request, if somebody decided on a trace."""
    asker: Asker = EVERYBODY

    @property
    def size(self) -> int:
        """The bytes that the request counts against the budgets."""
        return len(self.body) + 256


class Coordinator:
    """One registered incarnation of a coordinator, and the RPC client to it."""

    __slots__ = ("client", "incarnation", "node_id")

    def __init__(self, node_id: int, incarnation: int, client: RpcClient) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.client = client


class ShardOwners(Protocol):
    """The shards' owners, and the requests that wait for one. `Coordinators` implements it."""

    loop: asyncio.AbstractEventLoop

    @property
    def kind(self) -> CoordinatorKind: ...

    @property
    def shards(self) -> CoordinatorShards: ...

    @property
    def topics_revision(self) -> int:
        """The revision at which the topics of the newest image last changed."""

    @property
    def leaving(self) -> bool:
        """True while the gateway stops: no request may wait here for other members any more."""

    @property
    def delayed_requests(self) -> DelayedRequests: ...

    def owner(self, shard: int) -> Coordinator | None:
        """The owner that the newest image names, if this gateway knows its address."""

    def connect(self, coordinator: Coordinator) -> None: ...

    def release(self, query: CoordinatorQuery) -> None:
        """Gives the request's bytes back to the budgets."""


class CoordinatorRequest:
    """One request on its way. `ask` once. It is also the RPC client's completion callback, through which image changes find
    it."""

    __slots__ = (
        "_coordinators",
        "_deadline",
        "_error",
        "_loop",
        "_on_result",
        "_query",
        "_sent_to",
        "_timer",
        "_waited",
        "answered_at",
        "done",
        "request_id",
        "sent_at",
        "server",
    )

    def __init__(self, coordinators: ShardOwners, query: CoordinatorQuery, on_result: OnResult) -> None:
        self._coordinators = coordinators
        self._query = query
        self._on_result: OnResult | None = on_result
        self._loop = coordinators.loop
        self._deadline = self._loop.time() + (HEARTBEAT_TIMEOUT_S if query.api.is_heartbeat else TIMEOUT_S)
        self._error = NOT_COORDINATOR
        self._sent_to: Coordinator | None = None  # until it answers
        self.request_id = 0
        """Of the last attempt, as the next three."""
        self.sent_at = self.answered_at = 0.0
        self.server = ""
        self._timer: asyncio.TimerHandle | None = None
        self._waited = False
        self.done = False

    def cancel(self) -> None:
        """Ends a request whose client has disconnected, and cancels it at the owner."""
        self._take_back()
        self._end()

    def follow(self) -> None:
        """Follows a new image, which may name another owner."""
        if self._sent_to is None or self._coordinators.owner(self._query.shard) is self._sent_to:
            return
        if self._query.api.is_repeatable:
            self._take_back()
            self.ask()
        elif self._timer is None:
            self._timer = self._loop.call_later(FORMER_OWNER_TIMEOUT_S, self._give_up)

    def leave(self) -> None:
        """Ends a request that waits for other members, since the gateway stops."""
        if self._query.api.parks:
            self._give_up()

    # --- sending ------------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Sends it to the owner, or waits for one."""
        coordinators, query = self._coordinators, self._query
        if not coordinators.shards.count or (coordinators.leaving and query.api.parks):
            self._finish(NOT_COORDINATOR)
            return
        owner = coordinators.owner(query.shard)
        if owner is None:
            self._wait()
        elif not owner.client.connected:
            coordinators.connect(owner)
            self._wait()
        else:
            # The revision of this attempt: a later one may rest on a later image.
            revision = coordinators.topics_revision
            client = query.client_id, query.client_host
            body = [query.shard, int(query.api.key), query.api_version, *client, revision, *query.asker]
            timeout_s = PARKED_REQUEST_TIMEOUT_S if query.api.parks else REQUEST_TIMEOUT_S
            packed = pack_context(query.context) if query.context is not None else None
            try:
                self.request_id = owner.client.send(
                    coordinators.kind.method, body, (query.body,), self, timeout_s=timeout_s, trace=packed
                )
            except (Overloaded, Disconnected):
                self._wait()
            else:
                self._sent_to = owner
                self._note_sent(owner)

    def _note_sent(self, owner: Coordinator) -> None:
        exchange = self._query.exchange
        self.sent_at = exchange.sent_at if exchange is not None and not self._waited else self._loop.time()
        self.answered_at = 0.0
        self.server = process_name(self._coordinators.kind.role, owner.node_id, owner.incarnation)
        if exchange is not None and not exchange.asked:
            exchange.asks(self)

    def _wait(self) -> None:
        self._waited = True
        if self._loop.time() >= self._deadline:
            self._finish(self._error)
        else:
            self._coordinators.delayed_requests.wait(self.ask)

    def __call__(self, outcome: Response | Exception) -> None:
        self._no_longer_sent()
        self.answered_at = self._loop.time()
        if isinstance(outcome, Response):
            self._on_response(outcome)
        elif isinstance(outcome, RpcError) and outcome.code != REQUEST_TIMED_OUT:
            log.error(f"a {self._coordinators.kind.name} failed", extra=fields(api=int(self._query.api.key), error=str(outcome)))
            self._finish(UNKNOWN_SERVER_ERROR)
        elif self._query.api.is_repeatable or (isinstance(outcome, RpcFailure) and not outcome.sent):
            self._error = NOT_COORDINATOR
            self._wait()
        else:
            self._finish(NOT_COORDINATOR)

    def _on_response(self, outcome: Response) -> None:
        error = 0
        try:
            if outcome.body != SUCCESS:
                reply = unpack(AskReply, outcome.body)
                error = reply.error
                if reply.traced_error and self._query.exchange is not None:
                    self._query.exchange.error = reply.traced_error
        except ContractError as reason:
            log.error(f"a {self._coordinators.kind.name}'s answer cannot be read", extra=fields(reason=str(reason)))
            self._finish(UNKNOWN_SERVER_ERROR)
            return
        if error == 0:
            self._finish(0, outcome.payload)
        elif self._may_ask_again(error):
            self._error = error
            self._wait()
        else:
            self._finish(error)

    def _may_ask_again(self, error: int) -> bool:
        if error == COORDINATOR_LOAD_IN_PROGRESS:
            return self._query.api.key != ApiKey.HEARTBEAT  # it succeeds meanwhile: see libs/wire/group_refusals.py
        # After COORDINATOR_NOT_AVAILABLE, the append may or may not be in the log.
        return error == NOT_COORDINATOR or (error == COORDINATOR_NOT_AVAILABLE and self._query.api.is_repeatable)

    # --- what its trace is made of ------------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return self._coordinators.kind.method

    def part_of(self, exchange: Exchange) -> int:
        return 0

    def context_of(self, exchange: Exchange) -> SpanContext | None:
        return self._query.context

    def subject_of(self, exchange: Exchange) -> Subject:
        is_transaction = self._coordinators.kind is TRANSACTIONS
        return transaction_subject(self._query.key) if is_transaction else group_subject(self._query.key)

    # --- ending -------------------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Ends a request that was sent and will get no answer."""
        self._take_back()
        self._finish(NOT_COORDINATOR)

    def _no_longer_sent(self) -> None:
        self._sent_to = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_back(self) -> None:
        if self._sent_to is not None:
            self._sent_to.client.cancel(self.request_id)
        self._no_longer_sent()
        self._coordinators.delayed_requests.remove(self.ask)

    def _finish(self, error: int, payload: Payload = b"") -> None:
        on_result = self._on_result
        self._end()
        if on_result is not None:
            on_result(error, payload)

    def _end(self) -> None:
        if not self.done:
            self.done = True
            self._on_result = None
            self._coordinators.release(self._query)
