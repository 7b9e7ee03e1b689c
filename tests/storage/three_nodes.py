"""Several storage nodes in this process, over one store in memory; the test plays the controller."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ConfigOverrides, InSync, PartitionState, Replica, Topic
from libs.commitlog.files.filesystem import OsFileSystem
from services.storage.partition.partition import Partition
from tests.storage.cluster import StorageCluster
from tests.support.polling import until


class Nodes:
    """By node id. Each is a `StorageCluster` of its own but for the store."""

    def __init__(self, path: Path, sockets: Path, ids: Sequence[int]) -> None:
        self.store = MemoryStore()
        self.by_id: dict[int, StorageCluster] = {}
        for node_id in ids:
            (path / f"{node_id}").mkdir()
            (sockets / f"{node_id}").mkdir()
            node = StorageCluster(path / f"{node_id}", sockets / f"{node_id}", OsFileSystem())
            node.store = self.store
            node.config = replace(node.config, node_id=node_id)
            self.by_id[node_id] = node
        self._epochs: dict[tuple[bytes, int], int] = {}

    def __getitem__(self, node_id: int) -> StorageCluster:
        return self.by_id[node_id]

    async def topic(self, name: str, *, leader: int, replicas: Sequence[int] = (), partitions: int = 1, **configs: str) -> bytes:
        topic_id = name.encode().ljust(16, b"\0")
        if configs:
            values = {name.replace("_", "."): value for name, value in configs.items()}
            await self[leader].write(keys.config("topic", name), encode(ConfigOverrides(values)))
        for index in range(partitions):
            await self.elect(topic_id, leader, index=index, replicas=replicas)
        await self[leader].write(keys.topic(name), encode(Topic(name, topic_id.hex(), partitions)))
        for index in range(partitions):
            await self[leader].leads(topic_id, index, self._epochs[topic_id, index])
        return topic_id

    async def elect(
        self, topic_id: bytes, leader: int, *, index: int = 0, isr: Sequence[int] = (), replicas: Sequence[int] = ()
    ) -> None:
        """The state says so, in the next epoch."""
        epoch = self._epochs[topic_id, index] = self._epochs.get((topic_id, index), -1) + 1
        everyone = tuple(replicas or self.by_id)
        state = PartitionState(
            tuple(Replica(node_id, "") for node_id in everyone),
            leader,
            self[leader].incarnation,
            epoch,
            epoch,
            tuple(InSync(node_id, self[node_id].incarnation) for node_id in isr or everyone),
        )
        await self[leader].write(keys.partition(topic_id, index), encode(state))

    async def lead(self, topic_id: bytes, leader: int, *, index: int = 0, isr: Sequence[int] = ()) -> None:
        """Elects it, and waits until it leads."""
        await self.elect(topic_id, leader, index=index, isr=isr)
        await self[leader].leads(topic_id, index, self._epochs[topic_id, index])

    def home(self, node_id: int, topic_id: bytes, index: int = 0) -> Partition:
        node = self[node_id].node
        assert node is not None
        opened = node.opened.open_logs.get((topic_id, index))
        if opened is None:
            raise KeyError(topic_id, index)
        return opened[0]

    def content(self, node_id: int, topic_id: bytes, index: int = 0) -> bytes:
        """All batches, byte for byte."""
        partition_log = self.home(node_id, topic_id, index).log
        return b"".join(Path(segment.file.path).read_bytes()[: segment.size] for segment in partition_log.segments)

    async def alike(self, topic_id: bytes, ids: Sequence[int] = (), *, index: int = 0) -> None:
        """The same bytes and the same high watermark, on each of them."""

        def held() -> bool:
            try:
                homes = [self.home(node_id, topic_id, index) for node_id in ids or self.by_id]
            except KeyError:
                return False
            ends = {(partition.log_start_offset, partition.log_end_offset, partition.high_watermark) for partition in homes}
            return len(ends) == 1 and all(partition.high_watermark == partition.log_end_offset for partition in homes)

        await until(held)
        contents = {self.content(node_id, topic_id, index) for node_id in ids or self.by_id}
        assert len(contents) == 1


@asynccontextmanager
async def nodes(path: Path, sockets: Path, ids: Sequence[int] = (1, 2, 3)) -> AsyncIterator[Nodes]:
    running = Nodes(path, sockets, ids)
    try:
        for node_id, node in running.by_id.items():
            await node.write(keys.config("broker", str(node_id)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "50"})))
            await node.start()
        yield running
    finally:
        for node in running.by_id.values():
            await node.stop()
        await running.store.close()
