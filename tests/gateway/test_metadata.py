"""Metadata: live brokers, leaders, and topics that do not exist."""

from typing import Any

import pytest

from libs.rpc.contracts.controller import CreateInternalTopic, CreateTopics, MutatingClient, NewTopic, TopicResult, TopicsReply
from libs.rpc.messages.errors import DeadlineExceeded, RpcError
from libs.wire.errors import ErrorCode
from libs.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopic, RequestedTopic, write_response
from libs.wire.primitives import Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import metadata
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of


async def ask(gateway: FakeGateway, version: int, request: MetadataRequest, broker_id: int = -1) -> MetadataResponse:
    response = await metadata.handle(gateway, context(version, broker_id), request)
    write_response(Writer(), response, version)  # the version's codec can write each answer of the handler
    return response


def named(*names: str, **options: Any) -> MetadataRequest:
    return MetadataRequest([RequestedTopic(name) for name in names], **options)


def only(response: MetadataResponse) -> MetadataTopic:
    (topic,) = response.topics
    return topic


@pytest.mark.parametrize("version", range(14))
async def test_all_topics_and_all_live_brokers_are_listed(version: int) -> None:
    gateway = FakeGateway(Cluster(dead=(4,), topics={"a": (1, 2), "b": (3,)}, racks={2: "z2"}))
    response = await ask(gateway, version, MetadataRequest(None))
    assert [tuple(broker) for broker in response.brokers] == [
        (1, "gateway", 9093, None),
        (2, "gateway", 9094, "z2"),
        (3, "gateway", 9095, None),
    ]
    assert response.cluster_id == "test-cluster"
    assert {topic.name: [p.leader_id for p in topic.partitions] for topic in response.topics} == {"a": [1, 2], "b": [3]}
    assert all(topic.topic_id == topic_id_of(topic.name or "") for topic in response.topics)
    assert not gateway.requests


async def test_an_empty_list_asks_for_no_topics() -> None:
    response = await ask(FakeGateway(Cluster(topics={"a": (1,)})), 12, MetadataRequest([]))
    assert response.topics == []
    assert len(response.brokers) == 3


async def test_the_controller_is_the_live_broker_that_was_asked_else_the_first() -> None:
    gateway = FakeGateway(Cluster(dead=(4,)))
    assert (await ask(gateway, 12, MetadataRequest([]), broker_id=2)).controller_id == 2
    assert (await ask(gateway, 12, MetadataRequest([]), broker_id=4)).controller_id == 1
    assert (await ask(gateway, 12, MetadataRequest([]))).controller_id == 1
    assert (await ask(FakeGateway(Cluster(alive=())), 12, MetadataRequest([]))).controller_id == -1


@pytest.mark.parametrize("version", range(14))
async def test_a_fenced_broker_is_still_named_and_its_replicas_are_offline(version: int) -> None:
    """librdkafka closes its connection to a broker that is no longer named, with its requests there."""
    topics = {"a": (1, 4, -1)}
    gateway = FakeGateway(Cluster(alive=(1, 2, 5), dead=(3, 4), topics=topics, replicas={"a": (4, 1)}, racks={4: "z4"}))
    gateway.listed_fenced = {4}
    response = await ask(gateway, version, named("a"), broker_id=4)
    assert [tuple(broker) for broker in response.brokers] == [
        (1, "gateway", 9093, None),
        (2, "gateway", 9094, None),
        (4, "gateway", 9096, "z4"),
        (5, "gateway", 9097, None),
    ]
    assert response.controller_id == 1
    assert [p.leader_id for p in only(response).partitions] == [1, -1, -1]
    assert [p.error_code for p in only(response).partitions][1:] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert {tuple(p.offline) for p in only(response).partitions} == {(4,)}


async def test_while_no_broker_lives_the_known_ones_are_named_and_lead_nothing() -> None:
    """A metadata store that was stopped lets all leases expire at once. If no broker is named, librdkafka asks none again."""
    response = await ask(
        FakeGateway(Cluster(alive=(), dead=(1, 2), topics={"a": (1,)}, racks={2: "z2"})), 12, MetadataRequest(None)
    )
    assert [tuple(broker) for broker in response.brokers] == [(1, "gateway", 9093, None), (2, "gateway", 9094, "z2")]
    assert response.controller_id == -1
    (partition,) = only(response).partitions
    assert (partition.error_code, partition.leader_id, tuple(partition.offline)) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, (1,))


@pytest.mark.parametrize("leader", [-1, 4])
async def test_a_partition_without_a_live_leader_has_leader_not_available_and_no_leader(leader: int) -> None:
    gateway = FakeGateway(Cluster(dead=(4,), topics={"a": (leader,)}, replicas={"a": (4, 1)}))
    (partition,) = only(await ask(gateway, 12, named("a"))).partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.leader_id == -1
    assert partition.leader_epoch == 5
    assert tuple(partition.replicas) == (4, 1)
    assert tuple(partition.offline) == (4,)


async def test_version_0_leaves_out_replicas_that_are_down() -> None:
    gateway = FakeGateway(Cluster(dead=(4,), topics={"a": (1,)}, replicas={"a": (4, 1)}))
    (partition,) = only(await ask(gateway, 0, named("a"))).partitions
    assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert tuple(partition.replicas) == tuple(partition.isr) == (1,)


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
async def test_a_leader_that_the_listener_does_not_reach_has_its_own_error_from_version_6_on(
    version: int, error: ErrorCode
) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (2,)}))
    gateway.without_endpoint = {2}
    response = await ask(gateway, version, named("a"))
    assert [broker.node_id for broker in response.brokers] == [1, 3]
    assert only(response).partitions[0].error_code == error


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\0b", "a" * 250, "", "ä"])
async def test_an_impossible_topic_name_is_invalid_and_is_not_created(name: str) -> None:
    gateway = FakeGateway(Cluster())
    assert only(await ask(gateway, 9, named(name))).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not gateway.requests


@pytest.mark.parametrize("allow", [False, True])
async def test_a_missing_topic_is_unknown_where_creation_is_off(allow: bool) -> None:
    off = Cluster(configs={("broker", ""): {"auto.create.topics.enable": "false"}} if allow else {})
    gateway = FakeGateway(off)
    response = await ask(gateway, 9, named("new", allow_auto_topic_creation=allow))
    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not gateway.requests


async def test_a_missing_topic_is_created_and_is_in_the_same_answer() -> None:
    cluster = Cluster(topics={"old": (1,)})
    gateway = FakeGateway(cluster)

    def create(method: str, body: CreateTopics) -> TopicsReply:
        assert body == CreateTopics((NewTopic("new", -1, -1),), client=MutatingClient("ANONYMOUS", "client", strict=True))
        return TopicsReply((TopicResult("new", 0),), revision=9)

    def arrive(revision: int) -> None:
        cluster.topics["new"] = (2,)
        gateway.image = cluster.image(revision)

    gateway.on_controller, gateway.on_wait = create, arrive
    response = await ask(gateway, 3, named("old", "new", "old"))
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [("old", 0, 1), ("new", 0, 1)]
    assert gateway.waited_for == [9]


@pytest.mark.parametrize("failure", [ControllerUnavailable(), DeadlineExceeded("late", sent=True), RpcError(41, "not me")])
async def test_a_controller_that_is_away_means_ask_again(failure: Exception) -> None:
    gateway = FakeGateway(Cluster(topics={"old": (1,)}))

    def fail(method: str, body: object) -> TopicsReply:
        raise failure

    gateway.on_controller = fail
    response = await ask(gateway, 9, named("new", "old"))
    assert [(t.name, t.error_code) for t in response.topics] == [("old", 0), ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_the_answer_says_why_a_topic_cannot_be_created() -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_controller = lambda *_: TopicsReply((TopicResult("new", ErrorCode.INVALID_REPLICATION_FACTOR),), revision=7)
    assert only(await ask(gateway, 9, named("new"))).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_a_topic_beyond_the_quota_of_its_client_is_unknown_as_from_kafka() -> None:
    gateway = FakeGateway(Cluster())
    gateway.on_controller = lambda *_: TopicsReply((TopicResult("new", ErrorCode.THROTTLING_QUOTA_EXCEEDED),), revision=7)
    assert only(await ask(gateway, 9, named("new"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_topic_of_groups_is_created_on_demand_as_coordinators_want_it() -> None:
    cluster = Cluster()
    gateway = FakeGateway(cluster)
    requested: list[object] = []

    def create(method: str, body: object) -> TopicsReply:
        requested.append(body)
        name = "new" if isinstance(body, CreateTopics) else "__consumer_offsets"
        cluster.topics[name] = (1,)
        gateway.image = cluster.image(9)
        return TopicsReply((TopicResult(name, 0),), revision=9)

    gateway.on_controller = create
    response = await ask(gateway, 9, named("__consumer_offsets", "new"))
    client = MutatingClient("ANONYMOUS", "client", strict=True)
    assert requested == [CreateTopics((NewTopic("new", -1, -1),), client=client), CreateInternalTopic("__consumer_offsets")]
    assert [(t.name, t.error_code, t.is_internal) for t in response.topics] == [
        ("__consumer_offsets", 0, True),
        ("new", 0, False),
    ]
    requested.clear()
    gateway.image = Cluster().image(1)
    unasked = only(await ask(gateway, 9, named("__consumer_offsets", allow_auto_topic_creation=False)))
    assert (unasked.error_code, unasked.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert requested == []


async def test_internal_topics_that_nobody_would_own_are_not_created_on_demand() -> None:
    gateway = FakeGateway(Cluster())
    topic = only(await ask(gateway, 9, named("__share_group_state")))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.is_internal
    assert not gateway.requests


async def test_topics_are_found_by_id_and_an_unknown_id_is_unknown_topic_id() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    request = MetadataRequest([RequestedTopic(None, topic_id_of("a")), RequestedTopic(None, b"\7" * 16)])
    response = await ask(gateway, 12, request)
    assert [(t.name, t.error_code) for t in response.topics] == [("a", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert response.topics[1].topic_id == b"\7" * 16


@pytest.mark.parametrize(
    "topic", [RequestedTopic(None, topic_id_of("a")), RequestedTopic("a", topic_id_of("a")), RequestedTopic(None)]
)
@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_an_invalid_request_in_versions_10_and_11(version: int, topic: RequestedTopic) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    response = await ask(gateway, version, MetadataRequest([topic]))
    assert only(response).error_code == ErrorCode.INVALID_REQUEST
    assert not gateway.requests


async def test_authorized_operations_are_answered_only_on_request() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    response = await ask(gateway, 8, named("a"))
    assert (response.cluster_authorized_operations, only(response).authorized_operations) == (-(2**31), -(2**31))
    request = named("a", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    response = await ask(gateway, 8, request)
    assert (response.cluster_authorized_operations, only(response).authorized_operations) == (8096, 3576)
