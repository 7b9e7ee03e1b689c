"""What a request carries besides its body, and what a handler may ask of the gateway.

Handlers see nothing else: they are tested with a fake `GatewayState` over a real `ClusterImage`.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from libs.clock import Clock
from libs.cluster.image import ClusterImage
from services.gateway.core.shards import Shards

T = TypeVar("T")

BOOTSTRAP = -1
"""`RequestContext.broker_id` on the bootstrap port, which stands for no broker in particular."""


class ControllerUnavailable(Exception):
    """No elected controller answered in time. What was asked for may have happened."""


class NodeUnavailable(Exception):
    """The storage node did not answer. `sent` False: it never saw the request, which may be sent elsewhere."""

    def __init__(self, node_id: int, reason: str = "", *, sent: bool = True) -> None:
        super().__init__(f"storage node {node_id}: {reason}")
        self.node_id = node_id
        self.sent = sent


@dataclass(slots=True)
class RequestContext:
    """Who asks, where, and how. One per request."""

    api_version: int
    client_id: str
    correlation_id: int
    broker_id: int  # the broker id whose port was addressed, BOOTSTRAP (-1) on the bootstrap port
    client_host: str
    listener: str
    peer: str = ""  # the client's end of the connection: host and port
    principal: str = "User:ANONYMOUS"
    software_name: str = ""
    software_version: str = ""


class GatewayState(Protocol):
    """The gateway as its handlers see it."""

    @property
    def image(self) -> ClusterImage:
        """The newest image. Read it once a request, so that one answer shows one revision."""

    @property
    def clock(self) -> Clock: ...

    @property
    def gateway_id(self) -> int: ...

    async def controller(self, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        """Ask the elected controller, following it when it moves. Raises RpcError and ControllerUnavailable."""

    async def storage(self, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        """Ask a storage node. Raises RpcError and NodeUnavailable."""

    @property
    def shards(self) -> Shards:
        """Of `image`: which group is whose."""

    async def ask_shard(
        self, shard: int, api_key: int, body: bytes, context: RequestContext
    ) -> tuple[int, bytes | bytearray | memoryview]:
        """Ask the owner of a shard of `__consumer_offsets`, following it when it moves: (error, body of the response if it is 0).

        `body` is a request's without its header, in `context`'s version, about groups of that shard only.
        """

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        """Wait until the image has reached `revision`: then we read our own writes."""

    async def ask_neighbours(self) -> None:
        """Find out which other gateways live: `broker_endpoint` then names none that had ended before this was called."""

    def broker_endpoint(self, node_id: int, context: RequestContext) -> tuple[str, int] | None:
        """Host and port where this client should reach this broker id. None: no gateway serves the client's listener."""

    def broker_moved(self, node_id: int, group_id: str, context: RequestContext) -> bool:
        """Whether this group's client may know this broker by a former address, and has to be told, once by each of its
        connections (moves.py)."""

    async def next_producer_id(self) -> int:
        """A producer id never handed out before. Raises RpcError and ControllerUnavailable."""
