"""A born cluster with one topic, on which one scene is played: something happens, and the metadata say what follows."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import CONTROLLER, GATEWAY, STORAGE, PartitionState
from libs.rpc.contracts.controller import CreateTopics, NewTopic
from tests.simulation.cluster.processes import ControllerProcess, GatewayProcess, Process, StorageProcess, share_process
from tests.simulation.cluster.world import World

LONG_S = 60.0


class Cluster:
    def __init__(self, seed: int, storage: int = 3, *, nodes: bool = False) -> None:
        """`nodes`: each gateway is in the process of the storage node with its id."""
        self.world = world = World(seed)
        self.controllers = [ControllerProcess(world, node) for node in (1, 2, 3)]
        self.storage = [StorageProcess(world, node) for node in range(1, storage + 1)]
        self.gateways = [GatewayProcess(world, node) for node in (1, 2)]
        if nodes:
            for pair in zip(self.storage, self.gateways, strict=False):
                share_process(*pair)
        self.processes: list[Process] = [*self.controllers, *self.storage, *self.gateways]
        self._store = MemoryStore(world.keyspace)

    async def born(self, factor: int = 3) -> None:
        """Starts all processes, and makes one topic of one partition."""
        for process in self.processes:
            if not process.running:
                process.start()
        await self.until(lambda image: len(image.members(STORAGE)) == len(self.storage) and len(image.members(GATEWAY)) == 2)
        await self.until(lambda image: len(image.members(CONTROLLER)) == 3 and self.elected() is not None)
        await asyncio.sleep(1.0)  # heartbeats reach everybody
        elected = self.elected()
        assert elected is not None
        topics = CreateTopics((NewTopic("t", 1, factor),))
        await elected.what.administer(lambda administration, term: administration.create_topics(term, topics))
        await self.until(lambda image: len(self.state(image).isr) == factor)

    def elected(self) -> ControllerProcess | None:
        return next((c for c in self.controllers if c.running and c.what is not None and c.what.elected), None)

    async def image(self) -> ClusterImage:
        return ClusterImage.from_range(await self._store.range("/penstock/"))

    def state(self, image: ClusterImage) -> PartitionState:
        (state,) = image.partitions_of(bytes.fromhex(image.topics["t"].topic_id))
        assert state is not None
        return state

    async def now(self) -> PartitionState:
        return self.state(await self.image())

    async def leader(self) -> StorageProcess:
        return self.storage[(await self.now()).leader - 1]

    async def until(self, holds: Callable[[ClusterImage], bool], within_s: float = LONG_S) -> float:
        """Waits for the image to satisfy `holds`. Returns the virtual seconds that it took."""
        begun = self.world.seconds
        while not holds(await self.image()):
            assert self.world.seconds - begun < within_s, "\n".join(self.world.story[-30:])
            await asyncio.sleep(0.005)
        return self.world.seconds - begun

    async def steadily(self, holds: Callable[[ClusterImage], bool], for_s: float) -> None:
        begun = self.world.seconds
        while self.world.seconds - begun < for_s:
            assert holds(await self.image()), "\n".join(self.world.story[-30:])
            await asyncio.sleep(0.02)

    def cut(self, one: Process, others: list[Process]) -> None:
        for other in others:
            self.world.network.block(one.host, other.host)
            self.world.network.block(other.host, one.host)


def play(seed: int, scenario: Callable[[Cluster], Awaitable[None]], storage: int = 3, *, nodes: bool = False) -> None:
    cluster = Cluster(seed, storage, nodes=nodes)
    loop = cluster.world.loop

    async def run() -> None:
        await cluster.born(min(storage, 3))
        await scenario(cluster)

    try:
        loop.run(run())
        failures = list(loop.failures)
    finally:
        with loop.discarding():
            for process in cluster.processes:
                process.__dict__.clear()
            cluster.__dict__.clear()
            loop.close(sys.exception())
    assert failures == []
