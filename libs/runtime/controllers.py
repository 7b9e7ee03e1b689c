"""The connections to the controllers: one to each, kept alive by heartbeats, and shared by all callers.

Rule (docs/rules.md): every process heartbeats all controllers, so that the next elected one already knows the live processes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import CONTROLLER
from libs.rpc.client.rpc_client import Hello, Response, RpcClient
from libs.rpc.contracts.controller import FINDINGS_MAX, HEARTBEAT, Finding, Heartbeat, HeartbeatReply
from libs.rpc.contracts.peers import IMAGE_AT, ImageAt
from libs.rpc.messages.errors import ContractError, DeadlineExceeded, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.transport.transport import Transport
from libs.telemetry.logs import fields

log = logging.getLogger("network")

R = TypeVar("R")

HEARTBEAT_INTERVAL_S = 0.3
HEARTBEAT_TIMEOUT_S = 3.0
"""How long a heartbeat may have no answer. After that its connection is taken for a dead one."""
REQUEST_TIMEOUT_S = 5.0
REVISION_TIMEOUT_S = 1.0


class _ControllerConnection:
    """The connection to one controller. A new one is made when the controller moves."""

    def __init__(self, node_id: int, address: str, connect: Callable[[], RpcClient], heartbeat: Callable[[], Heartbeat]) -> None:
        self.node_id, self.address = node_id, address
        self.client = connect()
        self.elected: bool | None = None
        """Whether the controller said last that it is elected. None: it does not answer."""
        self._connect, self._heartbeat = connect, heartbeat
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"heartbeats to controller {node_id}")

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self.client.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + HEARTBEAT_INTERVAL_S
            try:
                answer = await self.client.call(HEARTBEAT, self._heartbeat(), timeout_s=HEARTBEAT_TIMEOUT_S)
                self.elected = unpack(HeartbeatReply, answer.body).elected
                self.client.rest()
            except DeadlineExceeded:
                self.elected = None
                former, self.client = self.client, self._connect()
                await former.close()
            except (RpcFailure, ContractError):
                self.elected = None  # the client connects again by itself, with the next call
            await asyncio.sleep(max(0.0, due - loop.time()))


class Controllers:
    """The connections to all controllers of the image. Call `follow` with each new image. A controller may use it too: it does
    not call itself."""

    def __init__(
        self,
        hello: Callable[[], Hello],
        host_id: str,
        transport: Transport,
        unreachable: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        """`unreachable` gives the storage nodes that do not answer this process. Heartbeats name them."""
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._unreachable_nodes = unreachable
        self._findings: Callable[[], Sequence[Finding]] = tuple
        self._image = ClusterImage()
        self._connections: dict[int, _ControllerConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._unreachable: set[tuple[int, int]] = set()
        self._closed = False

    def report_findings(self, findings: Callable[[], Sequence[Finding]]) -> None:
        """`findings` gives what heartbeats tell operators, the longest first. It must not raise."""
        self._findings = findings

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if self._closed or image.members(CONTROLLER) is before.members(CONTROLLER):
            return
        hello = self._hello()
        addresses = {node_id: address_of(member, self._host_id) for node_id, member in image.members(CONTROLLER).items()}
        if hello.role == CONTROLLER:
            addresses.pop(hello.node_id, None)
        for node_id, connection in list(self._connections.items()):
            # A controller whose lease ran out may live, and still be elected. Its connection stays until it is known to have
            # moved.
            if addresses.get(node_id, connection.address) != connection.address:
                self._disconnect(self._connections.pop(node_id))
        for node_id, address in addresses.items():
            incarnation = (node_id, image.members(CONTROLLER)[node_id].incarnation)
            if not address and incarnation not in self._unreachable:
                self._unreachable.add(incarnation)
                log.warning("a controller has no address that can be reached from this host", extra=fields(node=node_id))
            if address and node_id not in self._connections:
                self._connections[node_id] = self._connection_to(node_id, address)

    def elected(self) -> RpcClient | None:
        """The client of the controller that the image names as elected."""
        elected = self._image.controller
        connection = self._connections.get(elected.node_id) if elected is not None else None
        return connection.client if connection is not None else None

    def client(self, node_id: int) -> RpcClient | None:
        """The client of a controller, elected or not. None: no such controller has registered, or it cannot be reached from
        here."""
        connection = self._connections.get(node_id)
        return connection.client if connection is not None else None

    def denies(self, node_id: int) -> bool:
        """Whether that controller answers, and says that it is not elected."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.elected is False

    async def call(self, method: str, request: object, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Response:
        """Asks the elected controller. `request` is a contract. Raises RpcFailure, also when no controller is elected.

        A controller that is elected no longer answers NOT_CONTROLLER (41). The image will name another one.
        """
        client = self.elected()
        if client is None:
            raise RpcFailure("no controller is elected, or none that can be reached from here", sent=False)
        return await client.call(method, pack(request), timeout_s=timeout_s)

    async def revisions(self) -> dict[int, int]:
        """The metadata revision that each controller has reached, elected or not, by node id. A controller that does not answer
        within a second, or has no image yet, is left out."""
        answers = await self.ask_all(IMAGE_AT, [], ImageAt, timeout_s=REVISION_TIMEOUT_S)
        return {node_id: answer.revision for node_id, answer in answers.items() if answer.revision > 0}

    async def ask_all(self, method: str, request: object, reply_type: type[R], *, timeout_s: float) -> dict[int, R]:
        """The answers of the controllers, elected or not, by node id. One that does not answer in time is left out."""

        async def ask(client: RpcClient) -> R | None:
            try:
                response = await client.call(method, request, timeout_s=timeout_s)
                return unpack(reply_type, response.body)
            except (RpcFailure, ContractError):
                return None

        node_ids = list(self._connections)
        answers = await asyncio.gather(*[ask(self._connections[node_id].client) for node_id in node_ids])
        return {node_id: answer for node_id, answer in zip(node_ids, answers, strict=True) if answer is not None}

    async def close(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            self._disconnect(connection)
        self._connections.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def _connection_to(self, node_id: int, address: str) -> _ControllerConnection:
        def connect() -> RpcClient:
            return RpcClient(address, self._hello, self._transport, expected=(CONTROLLER, node_id))

        return _ControllerConnection(node_id, address, connect, self._heartbeat)

    def _heartbeat(self) -> Heartbeat:
        hello = self._hello()
        unreachable = tuple(sorted(self._unreachable_nodes()))
        findings = tuple(self._findings()[:FINDINGS_MAX])
        return Heartbeat(hello.role, hello.node_id, hello.incarnation, self._image.revision, unreachable, findings)

    def _disconnect(self, connection: _ControllerConnection) -> None:
        task = asyncio.get_running_loop().create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
