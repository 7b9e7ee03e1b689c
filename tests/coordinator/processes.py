"""Whole coordinator processes in this one, over a real storage node."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from libs.clock import SystemClock
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.states import State
from libs.coordinator.shards.shard_set import ShardSet
from libs.roles import GATEWAY
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.peers import Peers
from libs.runtime.process import Environment, Identity
from tests.storage.cluster import WAIT_S
from tests.support.polling import until

_incarnations = itertools.count(100)


class Service(Protocol):
    """What both coordinators have."""

    shards: ShardSet[Any, Any, Any]


S = TypeVar("S", bound=Service)


class CoordinatorProcess(ABC, Generic[S]):
    """One life of a process. `peers` makes its way to the other coordinators."""

    role: ClassVar[str]

    def __init__(self, store: MemoryStore, sockets: Path, node_id: int, *, peers: Callable[[Self], Peers] | None = None) -> None:
        self.node_id = node_id
        self.incarnation = next(_incarnations)
        self.owner = Owner(node_id, self.incarnation)
        self.lifecycle = Lifecycle()
        self.socket = f"{sockets}/c{node_id}-{self.incarnation}"
        self.address = f"unix:{self.socket}"
        self.store = store.peer()
        """This process's way to it."""
        self.world = Environment(
            identity=Identity(self.role, node_id, self.incarnation, "this-host", "test"),
            clock=SystemClock(),
            store=self.store,
            transport=SocketTransport(),
            random=Random(7),
            peers=peers(self) if peers is not None else None,
        )
        self.service: S | None = None
        self._clients: list[RpcClient] = []

    @abstractmethod
    async def serve(self, on_built: Callable[[S], Awaitable[None]]) -> None:
        """Runs the service, until it is registered."""

    @property
    def running(self) -> S:
        assert self.service is not None
        return self.service

    async def start(self) -> Self:
        async def built(service: S) -> None:
            self.service = service

        async with asyncio.timeout(WAIT_S):
            await self.serve(built)
        return self

    async def stop(self) -> None:
        for client in self._clients:
            await client.close()
        assert await self.lifecycle.drain()

    def gateway(self, number: int = 1) -> RpcClient:
        return self.caller(GATEWAY, number)

    def caller(self, role: str, number: int = 1) -> RpcClient:
        hello = Hello(role, number, 1, "test", 1, "test-cluster")
        client = RpcClient(self.address, hello, SocketTransport(), expected=(self.role, self.node_id))
        self._clients.append(client)
        return client

    async def serves(self, *indexes: int) -> None:
        def all_serve() -> bool:
            owned = self.running.shards.owned
            return all(index in owned and owned[index].state is State.SERVING for index in indexes)

        await until(all_serve)
