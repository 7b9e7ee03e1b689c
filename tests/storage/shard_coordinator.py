"""A coordinator process of few lines: it owns shards whose logs a real storage node keeps."""

import asyncio

from libs.clock import SystemClock, WallMs
from libs.cluster.image_follower import ImageFollower
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.states import State
from libs.coordinator.shards.shard_set import ShardSet
from libs.rpc.client.rpc_client import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.storage_nodes import StorageNodes
from tests.coordinator.shelf import Event, Recorded, Shelf
from tests.coordinator.submissions import submit_to_shard
from tests.storage.cluster import WAIT_S, StorageCluster
from tests.support.polling import until

TOPIC = "__consumer_offsets"
Set = ShardSet[Event, str, Recorded]


class SetClock(SystemClock):
    """A clock that a test sets ahead."""

    ahead_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(super().wall_ms() + self.ahead_ms)


class Coordinator:
    """A process with a set of shards."""

    def __init__(self, cluster: StorageCluster, node_id: int) -> None:
        self.owner = Owner(node_id, 7)
        hello = Hello("group_coordinator", node_id, 7, "test", 1, "test-cluster")
        self.nodes = StorageNodes(lambda: hello, "this-host", SocketTransport())
        self.follower = ImageFollower(cluster.store)
        self.clock = SetClock()
        self.shards: Set = ShardSet(TOPIC, self.owner, lambda index, journal: Shelf(journal), self.nodes, self.clock)

    async def start(self) -> "Coordinator":
        await self.follower.start()
        self._follow()
        self.follower.subscribe(lambda old, new: self._follow())
        return self

    def _follow(self) -> None:
        self.nodes.follow(self.follower.image)
        self.shards.follow(self.follower.image)

    async def close(self) -> None:
        await self.follower.close()
        await self.shards.close()
        await self.nodes.close()

    async def said(self, index: int, event: Event) -> str | int:
        async with asyncio.timeout(WAIT_S):
            answer = await submit_to_shard(self.shards, index, event)
        return answer.error or answer.reply

    async def serves(self, index: int) -> None:
        await until(lambda: index in self.shards.owned and self.shards.owned[index].state is State.SERVING)
