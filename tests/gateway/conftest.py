"""A rig for tests: a gateway over a metadata store in memory and fake storage nodes."""

import dataclasses
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import GATEWAY, InSync, Member, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.store import Outcome, Put
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.peers import Peers
from libs.runtime.process import Environment, Identity
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.recorder import Tracing
from libs.telemetry.tracing.sampling import TraceRules
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.fake_node import FakeNode
from tests.gateway.kafka_client import RawClient
from tests.support.ports import Reservation, reserve_ports
from tests.support.span_ring import SpanRing

HOST_ID = "this-host"
UNREACHABLE = "unix:/nowhere/to/be/found"
TOPIC = "lines"
TOPIC_ID = bytes(range(16))
OFFSETS_ID = bytes(range(16, 32))


class Rig:
    """Two storage nodes and a gateway. Topic `lines` has partitions 0 and 1 led by node 1, and 2 led by node 2."""

    def __init__(self, ports: Reservation, directory: Path) -> None:
        self.store = MemoryStore()
        self.metrics = Metrics("gateway")
        self.directory = directory
        self.port_base = ports.first
        self.nodes = {1: FakeNode(1, directory), 2: FakeNode(2, directory)}
        self.config = GatewayConfig(node_id=1, etcd=(), port_base=ports.first, data_dir="")
        self.gateway: Gateway | None = None
        self.gateways_store = self.store
        self.peers: Peers | None = None
        self.descriptors_max = 20_000
        self.deaths: list[BaseException] = []
        self.trace_rules = TraceRules()
        self.spans = SpanRing()
        self._clients: list[RawClient] = []

    async def start(self, **changes: object) -> Gateway:
        for node in self.nodes.values():
            await node.start()
            await self.register(node)
        await self.put(keys.topic(TOPIC), Topic(TOPIC, TOPIC_ID.hex(), 3))
        await self.put(keys.topic("__consumer_offsets"), Topic("__consumer_offsets", OFFSETS_ID.hex(), 1, internal=True))
        for index, leader in enumerate((1, 1, 2)):
            await self.lead(index, leader)
        await self.put(keys.partition(OFFSETS_ID, 0), _state(1, 1, 0))
        self.config = dataclasses.replace(self.config, **changes)  # type: ignore[arg-type]
        identity = Identity(GATEWAY, 1, 1, HOST_ID, "test")
        tracing = Tracing(self.trace_rules, self.spans)
        world = Environment(
            identity, SystemClock(), self.gateways_store, SocketTransport(), Random(7), self.peers, tracing=tracing
        )
        self.gateway = Gateway(self.config, world, self.metrics, die=self.deaths.append, descriptors_max=self.descriptors_max)
        await self.gateway.start()
        return self.gateway

    async def stop(self) -> None:
        connections = self.gateway.connections if self.gateway is not None else ()
        broken = [what for connection in connections if (what := connection.broken_invariant())]
        for client in self._clients:
            await client.close()
        if self.gateway is not None:
            await self.gateway.stop()
        for node in self.nodes.values():
            await node.stop()
        await self.store.close()
        assert not broken

    async def put(self, key: str, record: object) -> None:
        result = await self.store.txn([], [Put(key, encode(record))])
        assert result.outcome is Outcome.OK

    async def register(self, node: FakeNode) -> None:
        member = Member("storage", node.node_id, node.incarnation, HOST_ID, unix_address=node.address)
        await self.put(keys.node(node.node_id), NodeRecord(node.node_id))
        await self.put(keys.member("storage", node.node_id), member)

    async def register_by_tcp(self, node: FakeNode) -> None:
        """The node's Unix socket is not here any more: it is reached as if it were on another host."""
        assert self.gateway is not None
        tcp = await node.listen("tcp:127.0.0.1:0")
        member = Member("storage", node.node_id, 2, HOST_ID, unix_address=UNREACHABLE, tcp_address=tcp)
        await self.put(keys.member("storage", node.node_id), member)
        await self.gateway.wait_for_revision(self.store.keyspace.revision, 5)

    async def lead(
        self, index: int, leader: int, epoch: int = 0, followers: tuple[int, ...] = (), *, topic_id: bytes = TOPIC_ID
    ) -> None:
        node = self.nodes.get(leader)
        state = _state(leader, node.incarnation if node else 0, epoch)
        replicas = tuple(Replica(follower, "") for follower in followers)
        in_sync = tuple(InSync(follower, 1) for follower in followers)
        state = dataclasses.replace(state, replicas=state.replicas + replicas, isr=state.isr + in_sync)
        await self.put(keys.partition(topic_id, index), state)

    async def client(self, broker_id: int = 0, *, address: str = "", tls: ssl.SSLContext | None = None) -> RawClient:
        """A client that is connected to a broker id's port; 0: the bootstrap port."""
        client = await RawClient.connect(self.port_base + broker_id, address=address, tls=tls)
        self._clients.append(client)
        return client

    def closed(self, reason: str) -> int:
        assert self.gateway is not None
        return self.gateway.meters.closed.get(reason, 0)


def _state(leader: int, incarnation: int, epoch: int) -> PartitionState:
    replica = max(leader, 1)
    return PartitionState((Replica(replica, ""),), leader, incarnation, epoch, epoch, (InSync(replica, incarnation),))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    # Not tmp_path: a Unix socket's path has at most 108 bytes.
    directory = Path(tempfile.mkdtemp(prefix="pst"))
    ports = reserve_ports(10)
    made = Rig(ports, directory)
    try:
        yield made
    finally:
        await made.stop()
        ports.release()
        shutil.rmtree(directory)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[type, int]:
    """How many requests each kind of shortcut has begun."""
    counts: dict[type, int] = {}

    def count(kind: Any) -> None:
        begin = kind.begin

        def counted(self: object, *arguments: object) -> bool:
            begun: bool = begin(self, *arguments)
            counts[kind] = counts.get(kind, 0) + begun
            return begun

        monkeypatch.setattr(kind, "begin", counted)

    for kind in (ProduceShortcut, FetchShortcut, RelayShortcut, ListOffsetsShortcut):
        count(kind)
    return counts
