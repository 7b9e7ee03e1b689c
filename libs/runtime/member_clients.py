"""Connections to the processes of one role: one for each member of the image."""

import asyncio
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.shard_owners import Owner
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.transport.transport import Transport


class MemberClients:
    """A connection to each member of a role. Call `follow` with each image. A member that vanished keeps its connection, since a
    lost lease is not a death."""

    def __init__(self, role: str, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self._role = role
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._clients: dict[int, tuple[int, RpcClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, image: ClusterImage) -> None:
        for node_id, member in image.members(self._role).items():
            current = self._clients.get(node_id)
            if current is not None and current[0] == member.incarnation:
                continue
            if current is not None:
                del self._clients[node_id]
                self._disconnect(current[1])
            address = address_of(member, self._host_id)
            if address:
                client = RpcClient(address, self._hello, self._transport, expected=(self._role, node_id))
                self._clients[node_id] = member.incarnation, client

    def client(self, node_id: int) -> RpcClient | None:
        """The client of a node. None: no such node has registered, or it cannot be reached from here."""
        current = self._clients.get(node_id)
        return current[1] if current is not None else None

    def client_of(self, owner: Owner) -> RpcClient | None:
        """The client of one start of a node. None: another start has registered since, or none yet."""
        current = self._clients.get(owner.node_id)
        return current[1] if current is not None and current[0] == owner.incarnation else None

    def unreachable(self) -> list[int]:
        """The nodes that do not answer."""
        return [node_id for node_id, (_, client) in self._clients.items() if client.unreachable]

    async def close(self) -> None:
        for _, client in self._clients.values():
            self._disconnect(client)
        self._clients.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def _disconnect(self, client: RpcClient) -> None:
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
