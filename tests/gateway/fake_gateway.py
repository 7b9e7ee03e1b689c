"""A fake `GatewayState` for handler tests: a real cluster image, and a controller and storage nodes whose answers a test sets."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from libs.clock import Clock, SystemClock
from libs.cluster import keys
from libs.cluster.acls import AclBinding
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import (
    AclRecord,
    ClientQuotas,
    ConfigOverrides,
    ElectedController,
    InSync,
    Member,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.store import KeyValue, RangeResult
from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.rpc.contracts.log_levels import LogLevels
from services.gateway.core.coordinator_shards import GROUPS, TRANSACTIONS, CoordinatorShards
from services.gateway.exchange.request_context import RequestContext, TracedCall

T = TypeVar("T")


def topic_id_of(name: str) -> bytes:
    return name.encode().ljust(16, b".")


@dataclass
class Cluster:
    """The records of a test's image. `topics`: the partitions' leaders by topic name, -1 for none."""

    alive: tuple[int, ...] = (1, 2, 3)
    dead: tuple[int, ...] = ()
    topics: dict[str, tuple[int, ...]] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)
    configs: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    started_with: dict[int, dict[str, str]] = field(default_factory=dict)  # broker configs by storage node
    replicas: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by topic; default: the leader alone
    owners: dict[int, str] = field(default_factory=dict)  # by shard of coordinators' topics; "" where not said
    features: dict[str, int] = field(default_factory=dict)  # finalized levels that were changed
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    acls: tuple[AclBinding, ...] = ()
    controllers: tuple[int, ...] = ()
    elected: int = -1  # one of the controllers, or one that is no member any more

    def image(self, revision: int = 7) -> ClusterImage:
        records: dict[str, object] = {keys.CLUSTER_ID: "test-cluster"}
        for node_id in (*self.alive, *self.dead):
            records[keys.node(node_id)] = NodeRecord(node_id, rack=self.racks.get(node_id, ""))
        for node_id in self.alive:
            records[keys.member("storage", node_id)] = Member(
                "storage", node_id, 1, "host", rack=self.racks.get(node_id, ""), configs=self.started_with.get(node_id, {})
            )
        for node_id in self.controllers:
            records[keys.member("controller", node_id)] = Member("controller", node_id, 1, "host")
        if self.elected >= 0:
            records[keys.CONTROLLER] = ElectedController(self.elected, 1)
        for name, leaders in self.topics.items():
            topic_id = topic_id_of(name)
            records[keys.topic(name)] = Topic(name, topic_id.hex(), len(leaders), name.startswith("__"))
            for index, leader in enumerate(leaders):
                nodes = self.replicas.get(name, (leader,) if leader >= 0 else (1,))
                state = PartitionState(
                    tuple(Replica(node, "") for node in nodes), leader, 1, 5, 9, tuple(InSync(node, 1) for node in nodes)
                )
                if name in (GROUP_TOPIC, TRANSACTION_TOPIC):
                    state = dataclasses.replace(state, owner=self.owners.get(index, ""))
                records[keys.partition(topic_id, index)] = state
        records |= {keys.feature(name): level for name, level in self.features.items()}
        for (kind, name), values in self.configs.items():
            records[keys.config(kind, name)] = ConfigOverrides(values)
        records |= {keys.acl(binding): AclRecord() for binding in self.acls}
        records |= {keys.client_quotas(entity): ClientQuotas(values) for entity, values in self.quotas.items()}
        items = tuple(KeyValue(key, encode(record), revision, revision, 0) for key, record in sorted(records.items()))
        return ClusterImage.from_range(RangeResult(items, revision))


class FakeGateway:
    """`on_controller` and `on_storage` answer, or raise. `requests` has what they were asked."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.image = cluster.image()
        self.clock: Clock = SystemClock()
        self.gateway_id = 1
        self.has_authorizer = False
        self.listings = asyncio.Semaphore()
        self.requests: list[tuple[Any, ...]] = []
        self.waited_for: list[int] = []
        self.on_controller: Callable[[str, Any], Any] = _unexpected
        self.on_storage: Callable[[int, Any], Any] = _unexpected
        self.on_member: Callable[[str, int, Any], Any] = lambda role, node_id, body: LogLevels(())
        self.on_group_coordinator: Callable[[int, Any], Any] = _unexpected
        self.on_shard: Callable[[int, bytes], Any] = _unexpected
        self.on_wait: Callable[[int], None] = lambda revision: None
        self.without_endpoint: set[int] = set()
        self.moved: set[int] = set()
        self.listed_fenced: set[int] = set()
        self.revisions: dict[int, int] = {}
        self.producer_ids: Callable[[], int] = _unexpected

    async def controller(self, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        self.requests.append((method, body, timeout_s))
        reply = self.on_controller(method, body)
        assert isinstance(reply, reply_type)
        return reply

    async def controller_revisions(self) -> Mapping[int, int]:
        return self.revisions

    async def storage(
        self, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float, asked: TracedCall | None = None
    ) -> T:
        self.requests.append((node_id, method, body, timeout_s))
        reply = self.on_storage(node_id, body)
        assert isinstance(reply, reply_type)
        return reply

    async def member(self, role: str, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        self.requests.append((role, node_id, method, body, timeout_s))
        reply = self.on_member(role, node_id, body)
        assert isinstance(reply, reply_type)
        return reply

    async def group_coordinator(self, shard: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        self.requests.append((shard, method, body, timeout_s))
        reply = self.on_group_coordinator(shard, body)
        assert isinstance(reply, reply_type)
        return reply

    @property
    def shards(self) -> CoordinatorShards:
        return CoordinatorShards(GROUPS, self.image)

    @property
    def transaction_shards(self) -> CoordinatorShards:
        return CoordinatorShards(TRANSACTIONS, self.image)

    async def ask_coordinator(self, shard: int, api_key: int, body: bytes, context: RequestContext) -> tuple[int, bytes]:
        self.requests.append((shard, api_key, body))
        reply: tuple[int, bytes] = self.on_shard(shard, body)
        return reply

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        self.waited_for.append(revision)
        self.on_wait(revision)
        return self.image.revision >= revision

    async def probe_peer_gateways(self) -> None:
        pass

    def broker_endpoint(self, node_id: int, context: RequestContext) -> tuple[str, int] | None:
        return None if node_id in self.without_endpoint else ("gateway", 9092 + node_id)

    def lists_fenced_broker(self, node_id: int) -> bool:
        return node_id in self.listed_fenced

    def broker_moved(self, node_id: int, group_id: str, context: RequestContext) -> bool:
        return node_id in self.moved

    async def next_producer_id(self) -> int:
        return self.producer_ids()


def _unexpected(*_: object) -> Any:
    raise AssertionError("the handler asked somebody it should not have")


def context(version: int, broker_id: int = -1) -> RequestContext:
    return RequestContext(version, "client", 1, broker_id, "127.0.0.1", "PLAINTEXT")
