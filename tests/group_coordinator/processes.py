"""Whole coordinator processes in this one, over a real storage node; the test plays controller and gateway."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, InSync, Member, PartitionState, Replica
from libs.cluster.shard_owners import Owner
from libs.coordinator.states import State
from libs.rpc.client import Hello, Response, RpcClient
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask
from libs.rpc.contracts.coordinators import AskReply as Answered
from libs.rpc.schema import unpack
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.peers import Peers
from libs.runtime.process import Environment, Identity
from libs.wire.api_keys import ApiKey
from libs.wire.messages import (
    consumer_group_heartbeat,
    delete_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest
from libs.wire.messages.sync_group import SyncGroupRequest
from libs.wire.primitives import Reader, Writer
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator, MakeMachine
from services.group_coordinator.process import serve
from tests.group_coordinator.counting import Counting
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster
from tests.support.polling import until

TOPIC = "__consumer_offsets"
WIRE: dict[type, tuple[int, int, Any]] = {
    HeartbeatRequest: (ApiKey.HEARTBEAT, 4, heartbeat),
    JoinGroupRequest: (ApiKey.JOIN_GROUP, 9, join_group),
    SyncGroupRequest: (ApiKey.SYNC_GROUP, 5, sync_group),
    ListGroupsRequest: (ApiKey.LIST_GROUPS, 5, list_groups),
    OffsetCommitRequest: (ApiKey.OFFSET_COMMIT, 9, offset_commit),
    OffsetFetchRequest: (ApiKey.OFFSET_FETCH, 9, offset_fetch),
    ConsumerGroupHeartbeatRequest: (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_group_heartbeat),
    DeleteGroupsRequest: (ApiKey.DELETE_GROUPS, 2, delete_groups),
    LeaveGroupRequest: (ApiKey.LEAVE_GROUP, 5, leave_group),
}
_incarnations = itertools.count(100)


class Coordinator:
    """One life of a process."""

    def __init__(
        self,
        store: MemoryStore,
        sockets: Path,
        node_id: int,
        make: MakeMachine = Counting,
        peers: Callable[["Coordinator"], Peers] | None = None,
        hand_over_s: float = WAIT_S / 2,
    ) -> None:
        self.node_id = node_id
        self.incarnation = next(_incarnations)
        self.owner = Owner(node_id, self.incarnation)
        self.lifecycle = Lifecycle()
        self.address = f"unix:{sockets}/c{node_id}-{self.incarnation}"
        self.config = GroupCoordinatorConfig(
            node_id=node_id, etcd=(), data_dir="unused", rpc_unix=self.address.removeprefix("unix:"), hand_over_s=hand_over_s
        )
        self.store = store.peer()
        """This process's way to it."""
        self.make_machine = make
        self.world = Environment(
            identity=Identity(GROUP_COORDINATOR, node_id, self.incarnation, "this-host", "test"),
            clock=SystemClock(),
            store=self.store,
            transport=SocketTransport(),
            random=Random(7),
            peers=peers(self) if peers is not None else None,
        )
        self.service: GroupCoordinator | None = None
        self._clients: list[RpcClient] = []

    async def start(self) -> "Coordinator":
        async def built(coordinator: GroupCoordinator) -> None:
            self.service = coordinator

        async with asyncio.timeout(WAIT_S):
            await serve(self.config, self.world, self.lifecycle, built, self.make_machine)
        return self

    async def stop(self) -> None:
        for client in self._clients:
            await client.close()
        assert await self.lifecycle.drain()

    def gateway(self, number: int = 1) -> RpcClient:
        hello = Hello("gateway", number, 1, "test", 1, "test-cluster")
        client = RpcClient(self.address, hello, SocketTransport(), expected=(GROUP_COORDINATOR, self.node_id))
        self._clients.append(client)
        return client

    async def serves(self, *indexes: int) -> None:
        def all_serve() -> bool:
            assert self.service is not None
            owned = self.service.shards.owned
            return all(index in owned and owned[index].state is State.SERVING for index in indexes)

        await until(all_serve)

    def machine(self, index: int) -> Any:
        assert self.service is not None
        return self.service.shards.owned[index].machine.machine  # type: ignore[attr-defined]


def start_request(client: RpcClient, shard: int, request: object, *, timeout_s: float = WAIT_S) -> "asyncio.Future[Response]":
    key, version, wire = WIRE[type(request)]
    writer = Writer()
    wire.write_request(writer, request, version)
    return client.call(ASK_GROUPS, Ask(shard, key, version, "a client", "/127.0.0.1"), [writer.buffer], timeout_s=timeout_s)


def said(response: Response, request: type) -> Any:
    """The error, or the response to that kind of request."""
    error = unpack(Answered, response.body).error
    if error:
        assert not len(response.payload)
        return error
    _, version, wire = WIRE[request]
    reader = Reader(memoryview(response.payload))
    answer = wire.read_response(reader, version)
    reader.expect_end()
    return answer


async def ask(client: RpcClient, shard: int, request: object) -> Any:
    return said(await start_request(client, shard, request), type(request))


async def give(node: StorageCluster, topic: bytes, index: int, owner: Owner | None, owner_epoch: int) -> None:
    """The partition states that the controller writes."""
    alive = InSync(NODE_ID, node.incarnation)
    state = PartitionState(
        (Replica(NODE_ID, ""),),
        NODE_ID,
        node.incarnation,
        0,
        owner_epoch,
        (alive,),
        str(owner) if owner is not None else "",
        owner_epoch,
    )
    await node.write(keys.partition(topic, index), encode(state))


async def a_controller(node: StorageCluster) -> None:
    """Registered, and not to be reached."""
    await node.write(keys.member(CONTROLLER, 1), encode(Member(CONTROLLER, 1, 1, "elsewhere")))


async def registered(store: MemoryStore, node_id: int) -> Member | None:
    result = await store.get(keys.member(GROUP_COORDINATOR, node_id))
    return decode(Member, result.value) if result is not None else None
