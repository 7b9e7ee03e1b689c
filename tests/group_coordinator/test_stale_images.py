"""Requests about topics that the gateway knows, and its coordinator does not know yet. The coordinator waits for its image."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.records import GATEWAY
from libs.coordinator.requests import deferred_requests
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask, AskReply
from libs.rpc.messages.schema import unpack
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.process import Environment, Identity
from libs.telemetry.metrics import Metrics
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from libs.wire.messages.sync_group import SyncGroupRequest
from services.gateway.config import GatewayConfig
from services.gateway.peers import coordinator_request
from services.gateway.service import Gateway
from services.group_coordinator.coordinator import group_machine
from services.group_coordinator.core.model.requests import reads_topics
from tests.gateway.fake_groups import ask, request_body
from tests.gateway.kafka_client import RawClient
from tests.group_coordinator.processes import TOPIC, Coordinator
from tests.storage.cluster import WAIT_S, StorageCluster
from tests.support.polling import until
from tests.support.ports import reserve_ports

LAG_S = 0.3
LINES = "lines"
GROUP = "g"


class Lagging(NamedTuple):
    """A gateway, the coordinator of the only shard, and a storage node. A test may let the coordinator's image lag."""

    node: StorageCluster
    gateway: Gateway
    coordinator: Coordinator
    client: RawClient

    async def recreate(self) -> bytes:
        """Makes the topic anew, with another id. Returns when the gateway knows it."""
        await self.node.write(keys.topic(LINES), None)
        return await self.create()

    async def create(self) -> bytes:
        topic_id = await self.node.topic(LINES)
        await until(lambda: topic_id in self.gateway.image.topics_by_id)
        return topic_id

    async def caught_up(self) -> None:
        service = self.coordinator.service
        assert service is not None
        await until(lambda: service.topics.by_id.keys() == self.gateway.image.topics_by_id.keys())

    async def commit(self, offset: int) -> int:
        topic = OffsetCommitRequestTopic(name=LINES, partitions=[OffsetCommitRequestPartition(0, offset)])
        request = OffsetCommitRequest(GROUP, -1, "", topics=[topic])
        return _error(await ask(self.client, ApiKey.OFFSET_COMMIT, 9, request))

    async def committed(self) -> int:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(GROUP, None, -1, [OffsetFetchRequestTopics(name=LINES, partition_indexes=[0])])]
        )
        ((topic,),) = [group.topics for group in (await ask(self.client, ApiKey.OFFSET_FETCH, 9, request)).groups]
        assert [partition.error_code for partition in topic.partitions] == [0]
        return int(topic.partitions[0].committed_offset)

    async def delete_offset(self) -> int:
        request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(LINES, [OffsetDeleteRequestPartition(0)])])
        return _error(await ask(self.client, ApiKey.OFFSET_DELETE, 0, request))


def _error(response: Any) -> int:
    ((partition,),) = [topic.partitions for topic in response.topics]
    return int(partition.error_code)


@pytest.fixture
async def lagging(node: StorageCluster, begin: Callable[..., Awaitable[Coordinator]]) -> AsyncIterator[Lagging]:
    shards = await node.topic(TOPIC, cleanup_policy="compact")
    coordinator = await begin(make=group_machine)
    await node.give(shards, 0, coordinator.owner, 1)
    await coordinator.serves(0)
    ports = reserve_ports(10)
    identity = Identity(GATEWAY, 1, 1, "this-host", "test")
    world = Environment(identity, SystemClock(), node.store.peer(), SocketTransport(), Random(7))
    config = GatewayConfig(node_id=1, etcd=(), port_base=ports.first, data_dir="")
    gateway = Gateway(config, world, Metrics("gateway"), die=node.deaths.append, descriptors_max=20_000)
    await gateway.start()
    await until(lambda: gateway.data_path.nodes.ready(1))
    client = await RawClient.connect(ports.first + 1)
    yield Lagging(node, gateway, coordinator, client)
    await client.close()
    await gateway.stop()
    await world.store.close()
    ports.release()


async def test_a_commit_to_a_topic_that_was_made_anew_does_not_vanish(lagging: Lagging) -> None:
    await lagging.create()
    assert await lagging.commit(5) == 0
    lagging.coordinator.store.watch_delay_s = LAG_S
    await lagging.recreate()
    assert await lagging.commit(7) == 0
    await lagging.caught_up()
    assert await lagging.committed() == 7


async def test_offsets_of_a_former_topic_are_not_read_for_its_namesake(lagging: Lagging) -> None:
    await lagging.create()
    assert await lagging.commit(5) == 0
    lagging.coordinator.store.watch_delay_s = LAG_S
    await lagging.recreate()
    assert await lagging.committed() == -1


async def test_commits_and_deletions_know_a_topic_that_the_gateway_knows(lagging: Lagging) -> None:
    lagging.coordinator.store.watch_delay_s = LAG_S
    await lagging.create()
    assert await lagging.commit(7) == 0
    await lagging.recreate()
    assert await lagging.delete_offset() == 0


async def test_a_member_that_joins_is_given_a_topic_that_the_gateway_knows(lagging: Lagging) -> None:
    lagging.coordinator.store.watch_delay_s = LAG_S
    topic_id = await lagging.create()
    request = ConsumerGroupHeartbeatRequest(
        GROUP, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[LINES], topic_partitions=[]
    )
    reply = await ask(lagging.client, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert (reply.error_code, reply.assignment.topic_partitions) == (0, [TopicPartitions(topic_id, [0])])


async def test_heartbeats_do_not_wait_for_topics_and_commits_do_not_wait_for_ever(
    lagging: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_request, "TIMEOUT_S", 0.3)
    await lagging.create()
    assert await lagging.commit(5) == 0
    lagging.coordinator.store.unavailable = True
    await lagging.recreate()
    beat = await ask(lagging.client, ApiKey.HEARTBEAT, 4, HeartbeatRequest(GROUP, 1, "nobody"))
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID, "decided at once"
    assert await lagging.commit(7) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    lagging.coordinator.store.unavailable = False
    await lagging.caught_up()
    assert await lagging.commit(8) == 0
    assert await lagging.committed() == 8


async def test_other_changes_of_metadata_are_not_waited_for(lagging: Lagging) -> None:
    """Leaders and members change all the time, and no commit depends on them."""
    topic_id = await lagging.create()
    await lagging.caught_up()
    lagging.coordinator.store.unavailable = True
    await lagging.node.state(topic_id, epoch=1)
    revision = lagging.node.store.keyspace.revision
    await until(lambda: lagging.gateway.image.revision >= revision)
    assert await lagging.commit(7) == 0
    assert lagging.coordinator.service is not None
    assert lagging.coordinator.service.image.revision < revision
    lagging.coordinator.store.unavailable = False


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators wait for their image as long as it takes."""
    monkeypatch.setattr(deferred_requests, "WAIT_S_MAX", WAIT_S)


class DirectCaller:
    """A gateway whose image is as new as the test says."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._rpc = coordinator.gateway()

    def commit(self, offset: int, topics_revision: int) -> "asyncio.Future[Response]":
        topic = OffsetCommitRequestTopic(name=LINES, partitions=[OffsetCommitRequestPartition(0, offset)])
        return self._ask(ApiKey.OFFSET_COMMIT, 9, OffsetCommitRequest(GROUP, -1, "", topics=[topic]), topics_revision)

    async def list_groups(self) -> int:
        """Depends on no topic. What was sent before it has arrived when it is answered."""
        return error_of(await self._ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), 1 << 40))

    def _ask(self, key: ApiKey, version: int, request: object, topics_revision: int) -> "asyncio.Future[Response]":
        asked = Ask(0, key, version, "", "/", topics_revision)
        return self._rpc.call(ASK_GROUPS, asked, [request_body(key, version, request)], timeout_s=WAIT_S)


def error_of(response: Response) -> int:
    return unpack(AskReply, response.body).error


@pytest.mark.usefixtures("patient")
async def test_a_request_whose_caller_has_gone_is_not_decided(lagging: Lagging) -> None:
    caller, store = DirectCaller(lagging.coordinator), lagging.coordinator.store
    store.unavailable = True
    await lagging.create()
    revision = lagging.gateway.image.topics_revision
    gone = [caller.commit(offset, revision) for offset in (6, 7)]
    assert await caller.list_groups() == 0
    for commit in gone:
        commit.cancel()
    assert await caller.list_groups() == 0
    store.unavailable = False
    await lagging.caught_up()
    assert await lagging.committed() == -1


@pytest.mark.usefixtures("patient")
async def test_requests_that_waited_are_decided_in_their_order(lagging: Lagging) -> None:
    caller, store = DirectCaller(lagging.coordinator), lagging.coordinator.store
    store.unavailable = True
    await lagging.create()
    commits = [caller.commit(offset, lagging.gateway.image.topics_revision) for offset in range(10)]
    assert await caller.list_groups() == 0
    store.unavailable = False
    assert [error_of(await commit) for commit in commits] == [0] * 10
    assert await lagging.committed() == 9


@pytest.mark.usefixtures("patient")
async def test_a_coordinator_that_stops_refuses_what_waits(lagging: Lagging) -> None:
    caller = DirectCaller(lagging.coordinator)
    waiting = caller.commit(7, 1 << 40)
    assert await caller.list_groups() == 0
    assert not waiting.done()
    await lagging.coordinator.lifecycle.drain()
    assert error_of(await waiting) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("request_", "depends"),
    [
        (OffsetCommitRequest(), True),
        (OffsetFetchRequest(), True),
        (OffsetDeleteRequest(), True),
        (JoinGroupRequest(), True),
        (ConsumerGroupHeartbeatRequest(member_epoch=0), True),
        (ConsumerGroupHeartbeatRequest(member_epoch=3, subscribed_topic_names=["t"]), True),
        (ConsumerGroupHeartbeatRequest(member_epoch=3, subscribed_topic_regex="t.*"), True),
        (ConsumerGroupHeartbeatRequest(member_epoch=3), False),
        (ConsumerGroupHeartbeatRequest(member_epoch=-1), False),
        (HeartbeatRequest(), False),
        (SyncGroupRequest(), False),
        (LeaveGroupRequest(), False),
        (ListGroupsRequest(), False),
        (DescribeGroupsRequest(), False),
    ],
)
def test_which_requests_depend_on_topics(request_: Any, depends: bool) -> None:
    assert reads_topics(request_) is depends
