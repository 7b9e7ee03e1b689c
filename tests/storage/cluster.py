"""One storage node in this process, over a store in memory and a real Unix socket; the test plays the controller."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from libs.clock import Clock, SystemClock
from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import STORAGE, ConfigOverrides, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.shard_owners import Owner
from libs.cluster.store import Delete, Outcome, Put
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.open_files import OpenFiles
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import (
    APPEND,
    DELETE_RECORDS,
    FETCH,
    LIST_OFFSETS,
    Append,
    Appended,
    AppendPartition,
    AppendReply,
    DeletedRecords,
    DeleteRecords,
    DeleteRecordsPartition,
    DeleteRecordsReply,
    Fetch,
    Fetched,
    FetchPartition,
    FetchReply,
    ListedOffset,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
)
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.children import Children
from libs.runtime.process import Identity
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.recorder import Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.wire.record_batches.records import Record, build_batch
from services.storage.config import StorageConfig
from services.storage.environment import Environment
from services.storage.partition.partition import Partition
from services.storage.service import StorageNode
from services.storage.threads.one_thread import threads
from tests.support.inline_children import InlineChildren
from tests.support.polling import until
from tests.support.span_ring import SpanRing

NODE_ID = 1
WAIT_S = 60.0
CALLER = Owner(101, 1)
"""The caller of another role than a gateway, unless a test names one."""


class StorageCluster:
    """A store, a directory and at most one running node. `incarnation` rises with each start."""

    def __init__(self, path: Path, sockets: Path, fs: OsFileSystem) -> None:
        self.store = MemoryStore()
        self.fs = fs
        self.clock: Clock = SystemClock()
        self.open_files = OpenFiles()
        self.config = StorageConfig(
            node_id=NODE_ID,
            data_dir=str(path),
            etcd=(),
            rpc_unix=str(sockets / "s"),
            high_watermark_checkpoint_s=0.2,
            hand_over_s=0.1,  # the controllers of these tests move no leaders
        )
        self.children: Callable[[str, int, int], Children] = lambda name, count, nice: InlineChildren()
        self.incarnation = 0
        self.page_cache = "a kernel's"
        self.deaths: list[BaseException] = []
        self.trace_rules = TraceRules()
        self.spans = SpanRing()
        self.node: StorageNode | None = None
        self.client: RpcClient | None = None
        self.topic_ids = itertools.count(1)
        self._callers = itertools.count(1)
        self._others: dict[tuple[str, int], RpcClient] = {}

    # -- the node ---------------------------------------------------------------------------------------------------------

    async def start(self, *, cluster_id: str | None = "test-cluster", wait_s: float = WAIT_S) -> StorageNode:
        if cluster_id is not None:
            await self.write(keys.CLUSTER_ID, encode(cluster_id))
        await self.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "50"})))
        self.incarnation += 1
        world = Environment(
            identity=Identity(STORAGE, self.config.node_id, self.incarnation, "this-host", "test"),
            clock=self.clock,
            fs=self.fs,
            store=self.store,
            transport=SocketTransport(),
            metrics=Metrics("storage"),
            offload=threads,
            children=self.children,
            new_directory_id=lambda: os.urandom(16),
            die=self.deaths.append,
            open_files=self.open_files,
            page_cache_of=lambda path: self.page_cache,
            tracing=Tracing(self.trace_rules, self.spans),
        )
        self.node = StorageNode(self.config, world)
        async with asyncio.timeout(wait_s):
            await self.node.start()
        self.client = await self.connect()
        return self.node

    async def connect(self) -> RpcClient:
        hello = Hello("gateway", next(self._callers), 1, "test", 1, "test-cluster")
        client = RpcClient(f"unix:{self.config.rpc_unix}", hello, SocketTransport())
        await client.ready(WAIT_S)
        return client

    def caller(self, role: str, node_id: int = CALLER.node_id) -> RpcClient:
        """The client of another role than a gateway."""
        if (role, node_id) not in self._others:
            hello = Hello(role, node_id, CALLER.incarnation, "test", 1, "test-cluster")
            self._others[role, node_id] = RpcClient(f"unix:{self.config.rpc_unix}", hello, SocketTransport())
        return self._others[role, node_id]

    async def stop(self) -> None:
        for other in self._others.values():
            await other.close()
        self._others.clear()
        if self.client is not None:
            await self.client.close()
            self.client = None
        if self.node is not None:
            node, self.node = self.node, None
            await node.stop()

    # -- what a controller does -------------------------------------------------------------------------------------------

    async def write(self, key: str, value: bytes | None) -> None:
        done = await self.store.txn([], [Put(key, value) if value is not None else Delete(key)])
        assert done.outcome is Outcome.OK

    async def topic(self, name: str, *, partitions: int = 1, epoch: int = 0, **configs: str) -> bytes:
        """Creates it, and waits until the node leads all of it."""
        topic_id = next(self.topic_ids).to_bytes(16, "big")
        if configs:
            values = {name.replace("_", "."): value for name, value in configs.items()}
            await self.write(keys.config("topic", name), encode(ConfigOverrides(values)))
        for index in range(partitions):
            await self.state(topic_id, index, epoch=epoch)
        await self.write(keys.topic(name), encode(Topic(name, topic_id.hex(), partitions)))
        for index in range(partitions):
            await self.leads(topic_id, index, epoch)
        return topic_id

    async def state(
        self,
        topic_id: bytes,
        index: int = 0,
        *,
        epoch: int,
        incarnation: int = -1,
        leader: int = NODE_ID,
        directory: str = "",
    ) -> None:
        incarnation = self.incarnation if incarnation < 0 else incarnation
        state = PartitionState((Replica(NODE_ID, directory),), leader, incarnation, epoch, 0, (InSync(NODE_ID, incarnation),))
        await self.write(keys.partition(topic_id, index), encode(state))

    async def give(self, topic_id: bytes, index: int, owner: Owner | None, owner_epoch: int, *, leader_epoch: int = 0) -> None:
        """Gives a shard to a coordinator, or to none."""
        state = PartitionState(
            (Replica(NODE_ID, ""),),
            NODE_ID,
            self.incarnation,
            leader_epoch,
            owner_epoch,
            (InSync(NODE_ID, self.incarnation),),
            str(owner) if owner is not None else "",
            owner_epoch,
        )
        await self.write(keys.partition(topic_id, index), encode(state))

    async def member(self) -> Member | None:
        found = await self.store.get(keys.member("storage", NODE_ID))
        return decode(Member, found.value) if found is not None else None

    async def leads(self, topic_id: bytes, index: int = 0, epoch: int = 0) -> None:
        def led() -> bool:
            assert self.node is not None
            partition = self.node.partitions.serving((topic_id, index))
            return isinstance(partition, Partition) and partition.leader_epoch == epoch and not partition.is_behind

        await until(led)

    # -- what a gateway does ----------------------------------------------------------------------------------------------

    def send(
        self, batches: Sequence[tuple[bytes, int, bytes]], *, acks: int = -1, timeout_ms: int = 5000, epoch: int = -1
    ) -> "asyncio.Future[Response]":
        assert self.client is not None
        parts = tuple(AppendPartition(topic_id, index, epoch, len(batch)) for topic_id, index, batch in batches)
        payload = [batch for _, _, batch in batches]
        return self.client.call(APPEND, Append(acks, timeout_ms, parts), payload, timeout_s=WAIT_S)

    async def append(
        self, topic_id: bytes, batch: bytes, *, index: int = 0, acks: int = -1, timeout_ms: int = 5000, epoch: int = -1
    ) -> Appended:
        reply = await self.send([(topic_id, index, batch)], acks=acks, timeout_ms=timeout_ms, epoch=epoch)
        return appended(reply)[0]

    def fetching(self, topic_id: bytes, offset: int, *, inline: bool = False, **changes: int) -> "asyncio.Future[Response]":
        """`changes`: fields of Fetch or FetchPartition."""
        assert self.client is not None
        wanted = FetchPartition(topic_id, 0, offset, 1 << 20)
        fetch = Fetch(0, 1, 1 << 20, 0, (), inline=inline)
        for field, value in changes.items():
            if field in FetchPartition.__dataclass_fields__ and field != "max_bytes":
                wanted = replace(wanted, **{field: value})
            else:
                fetch = replace(fetch, **{field: value})
        return self.client.call(FETCH, replace(fetch, partitions=(wanted,)), timeout_s=WAIT_S)

    async def fetch(self, topic_id: bytes, offset: int, **changes: int) -> Fetched:
        return fetched(await self.fetching(topic_id, offset, **changes))[0]

    def listing(self, topic_id: bytes, timestamp: int, *, index: int = 0, epoch: int = -1) -> "asyncio.Future[Response]":
        assert self.client is not None
        request = ListOffsets(0, (ListOffsetsPartition(topic_id, index, timestamp, epoch),))
        return self.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)

    async def list_offset(self, topic_id: bytes, timestamp: int, *, index: int = 0, epoch: int = -1) -> ListedOffset:
        return listed(await self.listing(topic_id, timestamp, index=index, epoch=epoch))

    async def delete_records(self, topic_id: bytes, offset: int, *, index: int = 0, timeout_ms: int = 5000) -> DeletedRecords:
        assert self.client is not None
        request = DeleteRecords(timeout_ms, (DeleteRecordsPartition(topic_id, index, offset),))
        reply = await self.client.call(DELETE_RECORDS, request, timeout_s=WAIT_S)
        return unpack(DeleteRecordsReply, reply.body).partitions[0]


def appended(response: Response) -> tuple[Appended, ...]:
    return unpack(AppendReply, response.body).partitions


def listed(response: Response) -> ListedOffset:
    return unpack(ListOffsetsReply, response.body).partitions[0]


def fetched(response: Response) -> tuple[Fetched, ...]:
    return unpack(FetchReply, response.body).partitions


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """One batch as a client sends it. `producer`: (id, epoch, first sequence)."""
    records = [Record(None, value, timestamp + index) for index, value in enumerate(values)]
    producer_id, epoch, sequence = producer
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def partition_of(cluster: StorageCluster, topic: bytes) -> Partition:
    assert cluster.node is not None
    return cluster.node.partitions.by_key[topic, 0]


def directory(cluster: StorageCluster, name: str) -> Path:
    """The answer for the first partition of a topic."""
    return Path(cluster.config.directories[0]) / f"{name}-0"


@asynccontextmanager
async def storage_cluster(path: Path, sockets: Path, fs: OsFileSystem) -> AsyncIterator[StorageCluster]:
    cluster = StorageCluster(path, sockets, fs)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()
        await cluster.store.close()


def parked(cluster: StorageCluster) -> int:
    assert cluster.node is not None
    return cluster.node.opened.fetches.parked
