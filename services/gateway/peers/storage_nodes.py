"""The gateway's RPC clients, one per storage node and controller. An image change may replace them.

A storage node that is no longer a member keeps its client: a lost lease is not a death, and the partition states say which node
leads. A new incarnation or address gets a new client, and the calls of the old one fail as disconnected.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import STORAGE, Member
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.controller import Finding
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.transport.transport import Transport
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields

log = logging.getLogger("network")

CONNECT_S_MAX = 5.0


class StorageNode:
    """One registered incarnation of a storage node."""

    __slots__ = ("client", "node_id", "registered_incarnation", "same_host")

    def __init__(self, node_id: int, incarnation: int, same_host: bool, client: RpcClient) -> None:
        self.node_id = node_id
        self.registered_incarnation = incarnation
        self.same_host = same_host
        self.client = client

    @property
    def incarnation(self) -> int:
        """The incarnation of the process that answers now, which may be newer than the registered one. File ids belong to it."""
        peer = self.client.peer
        return peer.incarnation if peer is not None else self.registered_incarnation


class Nodes:
    """The storage nodes and controllers of the newest image. `on_ready` is called with a node's id when its connection comes
    up."""

    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport, on_ready: Callable[[int], None]) -> None:
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._on_ready = on_ready
        self._storage: dict[int, StorageNode] = {}
        self._members: frozenset[int] = frozenset()
        self._controllers = Controllers(hello, host_id, transport, self._unreachable_nodes)
        self._unreachable: set[tuple[str, int, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting: dict[StorageNode, asyncio.Task[None]] = {}

    def report_findings(self, findings: Callable[[], Sequence[Finding]]) -> None:
        """`findings`: what heartbeats to controllers tell operators."""
        self._controllers.report_findings(findings)

    def follow(self, image: ClusterImage) -> None:
        """Takes the members of a new image."""
        gone = self._members - image.members(STORAGE).keys()
        self._members = frozenset(image.members(STORAGE))
        for node_id in sorted(gone):
            log.info("storage node gone", extra=fields(node=node_id))
        for node_id, member in image.members(STORAGE).items():
            known = self._storage.get(node_id)
            if known is None or known.registered_incarnation != member.incarnation:
                if known is not None:
                    self._retire(known.client)
                address = self._address(member)
                if not address:
                    self._storage.pop(node_id, None)
                    continue
                client = RpcClient(address, self._hello, self._transport, expected=(STORAGE, node_id))
                node = StorageNode(node_id, member.incarnation, address.startswith("unix:"), client)
                self._storage[node_id] = node
                log.info("storage node appeared", extra=fields(node=node_id, incarnation=member.incarnation, address=address))
                self.connect(node)
        self._controllers.follow(image)

    def storage(self, node_id: int) -> StorageNode | None:
        return self._storage.get(node_id)

    def client(self, node_id: int) -> RpcClient | None:
        node = self._storage.get(node_id)
        return node.client if node is not None else None

    def known(self) -> list[StorageNode]:
        return list(self._storage.values())

    def ready(self, node_id: int) -> StorageNode | None:
        """The node if it is connected. Otherwise None, and a connection attempt is under way."""
        node = self._storage.get(node_id)
        if node is None:
            return None
        if node.client.connected:
            return node
        self.connect(node)
        return None

    def _unreachable_nodes(self) -> list[int]:
        return [node_id for node_id, node in self._storage.items() if node.client.unreachable]

    def controller(self) -> RpcClient | None:
        return self._controllers.elected()

    def controller_client(self, node_id: int) -> RpcClient | None:
        """The client of a controller, elected or not."""
        return self._controllers.client(node_id)

    async def controller_revisions(self) -> dict[int, int]:
        """The metadata revision that each controller has reached, by its node id. One that does not answer is left out."""
        return await self._controllers.revisions()

    def connect(self, node: StorageNode) -> None:
        if node not in self._connecting:
            task = asyncio.get_running_loop().create_task(self._connect(node))
            self._connecting[node] = task
            task.add_done_callback(lambda _task: self._connecting.pop(node, None))

    async def _connect(self, node: StorageNode) -> None:
        while self._storage.get(node.node_id) is node:
            try:
                await node.client.ready(CONNECT_S_MAX)
            except RpcFailure as error:
                # The RPC client backs off by itself. If it was closed, the node was replaced, and the loop ends.
                if self._storage.get(node.node_id) is node:
                    log.info("storage node unreachable", extra=fields(node=node.node_id, error=str(error)))
                continue
            self._on_ready(node.node_id)
            return

    async def close(self) -> None:
        for connecting in list(self._connecting.values()):
            connecting.cancel()
        clients = [node.client for node in self._storage.values()]
        self._storage.clear()
        await self._controllers.close()
        for client in clients:
            await client.close()
        if self._tasks:
            await asyncio.gather(*self._tasks)

    def _retire(self, client: RpcClient) -> None:
        task = asyncio.get_running_loop().create_task(client.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _address(self, member: Member) -> str:
        """The member's address as seen from here. Empty: there is none, which is logged once for each incarnation."""
        address = address_of(member, self._host_id, self._transport.has_socket)
        key = (member.role, member.node_id, member.incarnation)
        if not address and key not in self._unreachable:
            self._unreachable.add(key)
            addresses = fields(role=member.role, node=member.node_id, unix=member.unix_address, tcp=member.tcp_address)
            log.error("a member has no address that can be reached from here", extra=addresses)
        return address
