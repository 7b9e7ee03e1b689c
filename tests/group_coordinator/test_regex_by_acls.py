"""A regular expression matches the topics that the member who subscribes may describe (KAFKA-19147), from a gateway with an
authorizer to the coordinator."""

from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import encode
from libs.cluster.records import GATEWAY, AclRecord
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.process import Environment, Identity
from libs.telemetry.metrics import Metrics
from libs.wire.api_keys import ApiKey
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.group_coordinator.coordinator import group_machine
from tests.gateway.fake_groups import ask
from tests.gateway.kafka_client import RawClient
from tests.group_coordinator.consumer.stage import Stage
from tests.group_coordinator.processes import TOPIC, Coordinator
from tests.storage.cluster import StorageCluster
from tests.support.polling import until
from tests.support.ports import reserve_ports

SEEN, HIDDEN = "lines.seen", "lines.hidden"
ANONYMOUS = "User:ANONYMOUS"


def allowed(resource_type: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(resource_type, PatternType.LITERAL, name, ANONYMOUS, "127.0.0.1", operation, AclPermission.ALLOW)


@pytest.fixture
async def client(
    node: StorageCluster, begin: Callable[..., Awaitable[Coordinator]], request: pytest.FixtureRequest
) -> AsyncIterator[RawClient]:
    """A client of a gateway with an authorizer and these settings, who may use any group, and describe one topic."""
    shards = await node.topic(TOPIC, cleanup_policy="compact")
    coordinator = await begin(make=group_machine)
    await node.give(shards, 0, coordinator.owner, 1)
    await coordinator.serves(0)
    for binding in (
        allowed(ResourceType.GROUP, "*", AclOperation.READ),
        allowed(ResourceType.TOPIC, SEEN, AclOperation.DESCRIBE),
    ):
        await node.write(keys.acl(binding), encode(AclRecord()))
    ports = reserve_ports(10)
    world = Environment(
        Identity(GATEWAY, 1, 1, "this-host", "test"), SystemClock(), node.store.peer(), SocketTransport(), Random(7)
    )
    config = GatewayConfig(
        node_id=1, etcd=(), port_base=ports.first, data_dir="", authorizer="StandardAuthorizer", **request.param
    )
    gateway = Gateway(config, world, Metrics("gateway"), die=node.deaths.append, descriptors_max=20_000)
    await gateway.start()
    for name in (SEEN, HIDDEN):
        await node.topic(name)
    await until(lambda: {SEEN, HIDDEN} <= gateway.image.topics.keys())
    made_client = await RawClient.connect(ports.first + 1)
    yield made_client
    await made_client.close()
    await gateway.stop()
    await world.store.close()
    ports.release()


async def assigned(client: RawClient) -> int:
    """The number of topics that a new member is assigned."""
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_regex="lines.*", topic_partitions=[]
    )
    reply: Any = await ask(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert reply.error_code == 0
    return len(reply.assignment.topic_partitions)


@pytest.mark.parametrize(
    ("client", "topics"),
    [({}, 1), ({"super_users": ANONYMOUS}, 2), ({"allow_everyone_if_no_acl_found": True}, 2)],
    indirect=["client"],
    ids=["by ACLs", "super user", "no ACL"],
)
async def test_a_topic_that_the_member_may_not_describe_is_not_assigned(client: RawClient, topics: int) -> None:
    assert await assigned(client) == topics


def test_whose_request_finds_a_new_topic_decides_whether_the_group_sees_it() -> None:
    stage = Stage(t=1, secret=1)
    stage.describes = lambda name: not name.startswith("secret")
    assert stage.join("a", regex=".*").assigned == {"t": [0]}
    stage.set_topics(t=1, secret=1, secret2=1, u=1)
    stage.wait(10_000)
    assert stage.beat("a", 1, {"t": [0]}).assigned == {"t": [0], "u": [0]}
