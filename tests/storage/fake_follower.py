"""A follower node that a test plays: it registers, pulls, and reports what it was told. And partitions with several replicas."""

from collections.abc import Sequence
from dataclasses import replace

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, ConfigOverrides, InSync, Member, PartitionState, Replica, Topic
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.replication import PROGRESS, PULL, MadeDurable, Progress, Pull, Pulled, PulledFrom, PullReply
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.server.rpc_server import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster
from tests.support.polling import until

INCARNATION = 10


class FakeFollower:
    """`pull` names what changed and keeps the session in step."""

    def __init__(self, cluster: StorageCluster, node_id: int, incarnation: int = INCARNATION) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.incarnation = incarnation
        self.session = 0
        self.sequence = self.round = 0
        hello = Hello(STORAGE, node_id, incarnation, "test", 1, "test-cluster")
        self.client = RpcClient(f"unix:{cluster.config.rpc_unix}", hello, SocketTransport())
        self.begin()

    async def register(self) -> "FakeFollower":
        await self.announce()
        await self.client.ready(WAIT_S)
        return self

    async def announce(self, *, stopping: bool = False) -> None:
        """Without connecting yet."""
        member = Member(STORAGE, self.node_id, self.incarnation, "another-host", stopping=stopping)
        await self.cluster.write(keys.member(STORAGE, self.node_id), encode(member))
        await until(lambda: image(self.cluster).members(STORAGE).get(self.node_id) == member)

    def begin(self) -> None:
        """Another session."""
        self.session += 1
        self.sequence = self.round = 0

    async def pull(
        self,
        *named: PulledFrom,
        dropped: Sequence[tuple[bytes, int]] = (),
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        inline: bool = True,
        min_bytes: int = 1,
    ) -> list[tuple[Pulled, bytes]]:
        """Each partition of the answer with its share of the payload."""
        request = Pull(
            *(self.node_id, self.incarnation, self.session, self.sequence, max_wait_ms, max_bytes, partition_max_bytes),
            *(tuple(named), tuple(dropped), inline, self.round, min_bytes),
        )
        self.sequence += 1
        response = await self.client.call(PULL, request, timeout_s=WAIT_S)
        payload, found, reply = bytes(response.payload), [], unpack(PullReply, response.body)
        self.round = max(self.round, reply.round)
        for partition in reply.partitions:
            found.append((partition, payload[: partition.inline_length]))
            payload = payload[partition.inline_length :]
        assert not payload
        return found

    def progress(self, topic_id: bytes, durable: int, *, epoch: int = 0, index: int = 0, log_start: int = -1) -> None:
        progress = Progress(self.node_id, self.incarnation, (MadeDurable(topic_id, index, epoch, durable, log_start),))
        assert self.client.oneway(PROGRESS, pack(progress))

    async def close(self) -> None:
        await self.client.close()


def at(
    topic_id: bytes,
    offset: int,
    *,
    durable: int | None = None,
    epoch: int = 0,
    last_epoch: int | None = None,
    index: int = 0,
    log_start: int = 0,
) -> PulledFrom:
    """Durable up to its end, unless it is said; with a last batch of the same epoch, if there is any."""
    last = last_epoch if last_epoch is not None else (epoch if offset else -1)
    return PulledFrom(topic_id, index, epoch, offset, offset if durable is None else durable, last, log_start)


def replicated_state(
    cluster: StorageCluster, isr: Sequence[int], *, epoch: int = 0, partition_epoch: int = 0, replicas: Sequence[int] = (1, 2, 3)
) -> PartitionState:
    """Led by the node under test."""
    members = tuple([InSync(node, cluster.incarnation if node == NODE_ID else INCARNATION) for node in isr])
    places = tuple([Replica(node, "") for node in replicas])
    return PartitionState(places, NODE_ID, cluster.incarnation, epoch, partition_epoch, members)


async def replicated_topic(
    cluster: StorageCluster,
    name: str,
    isr: Sequence[int] = (1, 2, 3),
    *,
    replicas: Sequence[int] = (1, 2, 3),
    partitions: int = 1,
    **configs: str,
) -> bytes:
    """Led by the node under test, in epoch 0. One in sync is enough, unless it is said."""
    topic_id = next(cluster.topic_ids).to_bytes(16, "big")
    values = {"min.insync.replicas": "1", **{name.replace("_", "."): value for name, value in configs.items()}}
    await cluster.write(keys.config("topic", name), encode(ConfigOverrides(values)))
    state = replicated_state(cluster, isr, replicas=replicas)
    for index in range(partitions):
        await cluster.write(keys.partition(topic_id, index), encode(state))
    await cluster.write(keys.topic(name), encode(Topic(name, topic_id.hex(), partitions)))
    for index in range(partitions):
        await cluster.leads(topic_id, index)
    return topic_id


async def show(cluster: StorageCluster, topic_id: bytes, state: PartitionState, *, index: int = 0, **changes: object) -> None:
    """The controller writes it, and the node has seen it."""
    state = replace(state, **changes)  # type: ignore[arg-type]
    await cluster.write(keys.partition(topic_id, index), encode(state))
    await until(lambda: image(cluster).partition(topic_id, index) == state)
    assert cluster.node is not None
    await cluster.node.opened.reconciler.settled()


def image(cluster: StorageCluster) -> ClusterImage:
    assert cluster.node is not None
    return cluster.node.image_follower.image
