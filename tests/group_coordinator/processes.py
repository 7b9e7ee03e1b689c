"""Whole coordinator processes in this one, over a real storage node; the test plays controller and gateway."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, Member
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask, AskReply
from libs.rpc.messages.schema import unpack
from libs.runtime.peers import Peers
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
from tests.coordinator.processes import CoordinatorProcess
from tests.group_coordinator.counting import Counting
from tests.storage.cluster import WAIT_S, StorageCluster

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


class Coordinator(CoordinatorProcess[GroupCoordinator]):
    role = GROUP_COORDINATOR

    def __init__(
        self,
        store: MemoryStore,
        sockets: Path,
        node_id: int,
        make: MakeMachine = Counting,
        peers: Callable[["Coordinator"], Peers] | None = None,
        hand_over_s: float = WAIT_S / 2,
    ) -> None:
        super().__init__(store, sockets, node_id, peers=peers)
        self._make_machine = make
        self._config = GroupCoordinatorConfig(
            node_id=node_id, etcd=(), data_dir="unused", rpc_unix=self.socket, hand_over_s=hand_over_s
        )

    async def serve(self, on_built: Callable[[GroupCoordinator], Awaitable[None]]) -> None:
        await serve(self._config, self.world, self.lifecycle, on_built, self._make_machine)

    def machine(self, index: int) -> Any:
        return self.running.shards.owned[index].machine.machine  # type: ignore[attr-defined]


def start_request(client: RpcClient, shard: int, request: object, *, timeout_s: float = WAIT_S) -> "asyncio.Future[Response]":
    key, version, wire = WIRE[type(request)]
    writer = Writer()
    wire.write_request(writer, request, version)
    return client.call(ASK_GROUPS, Ask(shard, key, version, "a client", "/127.0.0.1"), [writer.buffer], timeout_s=timeout_s)


def said(response: Response, request: type) -> Any:
    """The error, or the response to that kind of request."""
    error = unpack(AskReply, response.body).error
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


async def a_controller(node: StorageCluster) -> None:
    """Registered, and not to be reached."""
    await node.write(keys.member(CONTROLLER, 1), encode(Member(CONTROLLER, 1, 1, "elsewhere")))


async def registered(store: MemoryStore, node_id: int) -> Member | None:
    result = await store.get(keys.member(GROUP_COORDINATOR, node_id))
    return decode(Member, result.value) if result is not None else None
