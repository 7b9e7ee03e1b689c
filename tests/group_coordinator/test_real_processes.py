"""Coordinators as real processes, with requests as a gateway sends them: owners answer, and commits survive them."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.controller import CREATE_INTERNAL_TOPIC, CreateInternalTopic, TopicsReply
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from libs.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.group_coordinator.processes import ask
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import until

SHARDS = 50
GROUPS = [f"group-{number}" for number in range(20)]
MEMORY_BYTES_MAX = 60 << 20
"""What is shared with other processes is counted in part."""


class Caller:
    """Sends requests to the owners that its own image names, and retries without an answer or with NOT_COORDINATOR."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.store = EtcdStore((cluster.etcd_endpoint,))
        self.follower = ImageFollower(self.store)
        self._clients: dict[str, RpcClient] = {}

    def client(self, role: str, node_id: int) -> RpcClient:
        member = self.follower.image.members(role)[node_id]
        if member.unix_address not in self._clients:
            self._clients[member.unix_address] = RpcClient(member.unix_address, self._hello, SocketTransport())
        return self._clients[member.unix_address]

    def _hello(self) -> Hello:
        return Hello("gateway", 77, 1, "test", 1, self.follower.image.cluster_id)

    async def create_topic(self) -> None:
        response = await self.client(CONTROLLER, 1).call(
            CREATE_INTERNAL_TOPIC, pack(CreateInternalTopic(GROUP_TOPIC)), timeout_s=60.0
        )
        reply = unpack(TopicsReply, response.body)
        await self.follower.wait_for(reply.revision, 60.0)

    def owners(self) -> list[Owner | None]:
        topic = self.follower.image.topics[GROUP_TOPIC]
        states = self.follower.image.partitions_of(bytes.fromhex(topic.topic_id))
        return [Owner.named(state.owner) if state is not None else None for state in states]

    async def ask(self, group: str, request: object) -> object:
        result: list[object] = []

        async def answered() -> bool:
            owner = self.owners()[shard_of(group, SHARDS)]
            if owner is None or owner.node_id not in self.follower.image.members(GROUP_COORDINATOR):
                return False
            try:
                answer = await ask(self.client(GROUP_COORDINATOR, owner.node_id), shard_of(group, SHARDS), request)
            except RpcFailure:
                return False
            if isinstance(answer, int):
                assert answer in (14, 15, 16)
                return False
            result.append(answer)
            return True

        await until(answered)
        return result[0]

    async def commit(self, group: str, offset: int) -> None:
        topic = OffsetCommitRequestTopic(name=GROUP_TOPIC, partitions=[OffsetCommitRequestPartition(0, offset)])
        answer = await self.ask(group, OffsetCommitRequest(group_id=group, topics=[topic]))
        assert isinstance(answer, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0

    async def committed(self, group: str) -> int:
        expected = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=GROUP_TOPIC, partition_indexes=[0])]
        )
        answer = await self.ask(group, OffsetFetchRequest(groups=[expected]))
        assert isinstance(answer, OffsetFetchResponse)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self.follower.close()
        await self.store.close()


@asynccontextmanager
async def calling(cluster: LocalCluster) -> AsyncIterator[Caller]:
    caller = Caller(cluster)
    try:
        await caller.follower.start()
        await caller.create_topic()
        yield caller
    finally:
        await caller.close()


@pytest.fixture(scope="module")
def two() -> LocalCluster:
    with LocalCluster(coordinators=2) as running:
        yield running  # type: ignore[misc]


async def test_two_coordinators_share_the_shards_and_what_is_committed_outlives_them(two: LocalCluster) -> None:
    async with calling(two) as caller:
        await until(lambda: sorted(caller.owners().count(owner) for owner in {*caller.owners()}) == [25, 25])
        for number, group in enumerate(GROUPS):
            await caller.commit(group, 100 + number)
        for name, number in (("group_coordinator-1", signal.SIGKILL), ("group_coordinator-2", signal.SIGTERM)):
            two.restart(name, number)
            assert [await caller.committed(group) for group in GROUPS] == [100 + number for number in range(len(GROUPS))]
        for number, group in enumerate(GROUPS):
            await caller.commit(group, 200 + number)
        assert await caller.committed(GROUPS[3]) == 203
        owner = caller.owners()[shard_of(GROUPS[3], SHARDS)]
        assert owner is not None
        seen = json.loads(two.admin(f"group_coordinator-{owner.node_id}", f"/debug/groups/{GROUPS[3]}"))
        (row,) = seen["offsets"]
        assert (row["topic"], row["committed"], row["error"]) == (GROUP_TOPIC, 203, 0)
        assert seen["lag"]["records"] == max(row["log_end"] - 203, 0)


async def test_it_tells_of_its_shards_and_is_small(two: LocalCluster) -> None:
    async with calling(two):
        assert two.admin("group_coordinator-1", "/healthz") == "ok"
        two.wait_ready(["group_coordinator-1"])

        def states() -> set[str]:
            return {shard["state"] for shard in json.loads(two.admin("group_coordinator-1", "/debug/shards")).values()}

        await until(lambda: states() == {"serving"})  # it may be given some of the other's, or give some to it
        assert "penstock_groups_shard_load_seconds_count" in two.admin("group_coordinator-1", "/metrics")
        assert two.memory_bytes("group_coordinator-1") < MEMORY_BYTES_MAX
