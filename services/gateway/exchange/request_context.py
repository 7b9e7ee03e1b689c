"""The context of a request besides its body, and the interface of the gateway for handlers.

Handlers see nothing else. Their tests use a fake `GatewayState` over a real `ClusterImage`.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

from libs.clock import Clock
from libs.cluster.image import ClusterImage
from libs.lean_dataclass import dataclass
from libs.rpc.client.rpc_client import Response, RpcClient
from services.gateway.core.authentication import ANONYMOUS_NAME
from services.gateway.core.coordinator_shards import CoordinatorShards
from services.gateway.core.produced_partitions import ProducedPartitions
from services.gateway.core.request_spans import Subject

T = TypeVar("T")


class ControllerUnavailable(Exception):
    """No elected controller answered in time. The request may have been carried out."""


class NodeUnavailable(Exception):
    """The storage node or coordinator did not answer. `sent` False: it never received the request, which may be sent
    elsewhere. `late`: it received the request, and the time is over."""

    def __init__(self, node_id: int, reason: str = "", *, sent: bool = True, late: bool = False) -> None:
        super().__init__(f"node {node_id}: {reason}")
        self.node_id = node_id
        self.sent = sent
        self.late = late


class TracedCall(Protocol):
    """An RPC request that the trace of a client's request shows."""

    @property
    def packed(self) -> bytes | None:
        """The context that travels with it. None: nobody decided on a trace."""

    def sent(self, node_id: int, client: RpcClient, request_id: int, answer: "asyncio.Future[Response]") -> None:
        """Notes that it was sent."""


class TracedCalls(Protocol):
    """Those of one client's request."""

    def asks(self, method: str, subject: Subject) -> TracedCall:
        """Call it for each that is about to be sent."""


ANONYMOUS: Final = f"User:{ANONYMOUS_NAME}"
"""The principal of a connection that has not authenticated."""


@dataclass(slots=True)
class RequestContext:
    """The client, the addressed broker id and the API version of one request."""

    api_version: int
    client_id: str
    correlation_id: int
    broker_id: int  # of the port that the client connected to; BOOTSTRAP (-1) for the bootstrap port
    client_host: str
    listener: str
    peer: str = ""  # the client's end of the connection: host and port
    principal: str = ANONYMOUS
    software_name: str = ""
    software_version: str = ""
    produced: ProducedPartitions | None = None  # None: no connection is known
    calls: TracedCalls | None = None
    """The RPC requests of its handler that its trace shows. None: no trace can be made."""

    @property
    def asker(self) -> str:
        """The client, for the logs of other services."""
        client = f"{self.client_id or '(no client id)'} from {self.peer or self.client_host}"
        return client if self.principal == ANONYMOUS else f"{self.principal}, {client}"


class GatewayState(Protocol):
    """The gateway as its handlers see it."""

    @property
    def image(self) -> ClusterImage:
        """The newest image. Read it once a request, so that one answer shows one revision."""

    @property
    def clock(self) -> Clock: ...

    @property
    def gateway_id(self) -> int: ...

    @property
    def has_authorizer(self) -> bool:
        """Whether this gateway decides by ACLs who may do what. Otherwise requests about ACLs are refused, as in Kafka."""

    @property
    def listings(self) -> asyncio.Semaphore:
        """Held while the groups or transactional ids of whole shards are collected: clients may make a million of them."""

    async def controller(self, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        """The reply of the elected controller, whichever process that is by then. Raises RpcError and ControllerUnavailable."""

    async def controller_revisions(self) -> Mapping[int, int]:
        """The metadata revision that each controller has reached, by its node id. A controller that does not answer is left
        out."""

    async def storage(
        self,
        node_id: int,
        method: str,
        body: object,
        reply_type: type[T],
        *,
        timeout_s: float,
        asked: TracedCall | None = None,
    ) -> T:
        """The reply of a storage node. `asked`: for the trace of the client's request. Raises RpcError and NodeUnavailable."""

    async def member(self, role: str, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        """The reply of one process of a role. Raises RpcError and NodeUnavailable."""

    async def group_coordinator(self, shard: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        """The reply of the owner of a shard of groups. Raises RpcError and NodeUnavailable."""

    @property
    def shards(self) -> CoordinatorShards:
        """The shards of `image` that say which coordinator owns a group."""

    @property
    def transaction_shards(self) -> CoordinatorShards:
        """The shards of `image` that say which coordinator owns a transactional id."""

    async def ask_coordinator(
        self, shard: int, api_key: int, body: bytes, context: RequestContext
    ) -> tuple[int, bytes | bytearray | memoryview]:
        """The result of the owner of a shard of that API's coordinators, whichever process that is by then: an error, and the
        body of the response if the error is 0.

        `body` is the body of a request in `context`'s version. All its groups or transactional ids belong to that shard.
        """

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        """Waits until the image has that revision, so that a client reads its own writes. False: it took too long."""

    async def probe_peer_gateways(self) -> None:
        """Finds out which other gateways are alive. Then `broker_endpoint` names none that had ended before this call."""

    def broker_endpoint(self, node_id: int, context: RequestContext) -> tuple[str, int] | None:
        """Host and port at which this client should connect to this broker id. None: no gateway serves the client's listener."""

    def lists_fenced_broker(self, node_id: int) -> bool:
        """Whether this broker is registered, not alive, and still named in Metadata (`core/fenced_brokers.py`)."""

    def broker_moved(self, node_id: int, key: str, context: RequestContext) -> bool:
        """Whether the client of this group or transactional id may know a former address of this broker and must be told so.

        True once for each connection and key (`peers/moved_endpoints.py`).
        """

    async def next_producer_id(self) -> int:
        """A producer id that was never handed out before. Raises RpcError and ControllerUnavailable."""
