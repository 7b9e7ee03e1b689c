"""Connections to storage nodes, for processes that append to logs and read them by RPC: one for each node of the image."""

import asyncio
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import STORAGE
from libs.rpc.client import Hello, RpcClient
from libs.rpc.transport import Transport


class StorageNodes:
    """Call `follow` with each image. A node that vanished keeps its connection: a lost lease is not a death."""

    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._clients: dict[int, tuple[int, RpcClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, image: ClusterImage) -> None:
        for node_id, member in image.members(STORAGE).items():
            known = self._clients.get(node_id)
            if known is not None and known[0] == member.incarnation:
                continue
            if known is not None:
                del self._clients[node_id]
                self._hang_up(known[1])
            address = address_of(member, self._host_id)
            if address:
                client = RpcClient(address, self._hello, self._transport, expected=(STORAGE, node_id))
                self._clients[node_id] = member.incarnation, client

    def client(self, node_id: int) -> RpcClient | None:
        """None: nobody of that name has registered, or it cannot be reached from here."""
        known = self._clients.get(node_id)
        return known[1] if known is not None else None

    async def close(self) -> None:
        for _, client in self._clients.values():
            self._hang_up(client)
        self._clients.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def _hang_up(self, client: RpcClient) -> None:
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
