"""CreateTopics, DeleteTopics and CreatePartitions: the requests to the controller, and the answers to the client."""

import pytest

from libs.rpc.contracts.controller import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    MutatingClient,
    NewTopic,
    TopicRef,
    TopicResult,
    TopicsReply,
)
from libs.rpc.messages.errors import Disconnected, RpcError
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_partitions as partitions_wire
from libs.wire.messages import create_topics as create_wire
from libs.wire.messages import delete_topics as delete_wire
from libs.wire.primitives import NO_UUID, Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import create_partitions, create_topics, delete_topics
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of

STRICT, PERMISSIVE = (MutatingClient("ANONYMOUS", "client", strict) for strict in (True, False))


def answering(*results: TopicResult, cluster: Cluster | None = None, throttle_ms: int = 0) -> FakeGateway:
    gateway = FakeGateway(cluster or Cluster())
    gateway.on_controller = lambda method, body: TopicsReply(results, 12, throttle_ms)
    return gateway


def failing(error: Exception) -> FakeGateway:
    gateway = FakeGateway(Cluster())

    def fail(method: str, body: object) -> TopicsReply:
        raise error

    gateway.on_controller = fail
    return gateway


async def create(gateway: FakeGateway, request: create_wire.CreateTopicsRequest) -> create_wire.CreateTopicsResponse:
    response = await create_topics.handle(gateway, context(7), request)
    create_wire.write_response(Writer(), response, 7)
    return response


async def test_a_topic_is_created_and_described_with_its_configs() -> None:
    gateway = answering(TopicResult("t", 0, None, topic_id_of("t"), 3, 1))
    topic = create_wire.CreatableTopic("t", 3, 1, configs=[create_wire.CreatableTopicConfig("retention.ms", "1000")])
    response = await create(gateway, create_wire.CreateTopicsRequest([topic], timeout_ms=5000))
    wanted = CreateTopics((NewTopic("t", 3, 1, (), (("retention.ms", "1000"),)),), client=STRICT)
    assert gateway.requests == [(CREATE_TOPICS, wanted, 5.0)]
    assert gateway.waited_for == [12]
    (result,) = response.topics
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (topic_id_of("t"), 3, 1)
    configs = {config.name: config for config in result.configs or []}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert configs["segment.bytes"].config_source == 5


async def test_assignments_and_validate_only_reach_the_controller() -> None:
    gateway = answering(TopicResult("t", 0, None, NO_UUID, 2, 1))
    assignments = [create_wire.CreatableReplicaAssignment(1, [2]), create_wire.CreatableReplicaAssignment(0, [1])]
    topic = create_wire.CreatableTopic("t", -1, -1, assignments)
    await create(gateway, create_wire.CreateTopicsRequest([topic], validate_only=True))
    request = gateway.requests[0][1]
    assert request == CreateTopics((NewTopic("t", -1, -1, ((1, (2,)), (0, (1,)))),), validate_only=True, client=STRICT)
    assert isinstance(request, CreateTopics)
    assert request.asked_by == context(7).asker


async def test_a_refused_topic_has_the_words_of_the_controller_and_no_configs() -> None:
    gateway = answering(TopicResult("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."))
    response = await create(gateway, create_wire.CreateTopicsRequest([create_wire.CreatableTopic("t", 1, 1)]))
    (result,) = response.topics
    assert (result.error_code, result.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert (result.configs, result.num_partitions, result.replication_factor) == ([], -1, -1)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ControllerUnavailable(), ErrorCode.REQUEST_TIMED_OUT),
        (Disconnected("gone", sent=True), ErrorCode.REQUEST_TIMED_OUT),
        (RpcError(ErrorCode.NOT_CONTROLLER, "not me"), ErrorCode.NOT_CONTROLLER),
        (RpcError(12345, "nonsense"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_failed_call_is_answered_for_each_topic_once(failure: Exception, error: ErrorCode) -> None:
    topics = [create_wire.CreatableTopic(name, 1, 1) for name in ("a", "b", "a")]
    response = await create(failing(failure), create_wire.CreateTopicsRequest(topics))
    assert [(t.name, t.error_code) for t in response.topics] == [("a", error), ("b", error)]
    request = delete_wire.DeleteTopicsRequest(topic_names=["a"], timeout_ms=1)
    deleted = await delete_topics.handle(failing(failure), context(5), request)
    assert [(r.name, r.error_code) for r in deleted.responses] == [("a", error)]
    more = partitions_wire.CreatePartitionsRequest([partitions_wire.CreatePartitionsTopic("a", 2)])
    grown = await create_partitions.handle(failing(failure), context(3), more)
    assert [(r.name, r.error_code) for r in grown.results] == [("a", error)]


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(version: int) -> None:
    gateway = answering(TopicResult("a", 0, None, topic_id_of("a")), TopicResult("b", 3, "no such topic"))
    request = delete_wire.DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=100)
    response = await delete_topics.handle(gateway, context(version), request)
    delete_wire.write_response(Writer(), response, version)
    client = STRICT if version >= 5 else PERMISSIVE
    assert gateway.requests == [(DELETE_TOPICS, DeleteTopics((TopicRef("a"), TopicRef("b")), client=client), 0.1)]
    assert [(r.name, r.error_code, r.error_message) for r in response.responses] == [("a", 0, None), ("b", 3, "no such topic")]


async def test_topics_are_deleted_by_id_and_an_unknown_id_has_no_name() -> None:
    gateway = answering(TopicResult("a", 0, None, topic_id_of("a")), TopicResult("", 100, "no such id", b"\7" * 16))
    states = [delete_wire.DeleteTopicState(None, topic_id_of("a")), delete_wire.DeleteTopicState(None, b"\7" * 16)]
    response = await delete_topics.handle(gateway, context(6), delete_wire.DeleteTopicsRequest(states))
    wanted = DeleteTopics((TopicRef(None, topic_id_of("a")), TopicRef(None, b"\7" * 16)), client=STRICT)
    assert gateway.requests[0][1] == wanted
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("a", topic_id_of("a"), 0),
        (None, b"\7" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [1, 2])
async def test_versions_without_topic_deletion_disabled_get_invalid_request_when_deletion_is_off(version: int) -> None:
    gateway = FakeGateway(Cluster(configs={("broker", ""): {"delete.topic.enable": "false"}}))
    response = await delete_topics.handle(gateway, context(version), delete_wire.DeleteTopicsRequest(topic_names=["a"]))
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST]


async def test_partitions_are_added() -> None:
    gateway = answering(TopicResult("a", 0), TopicResult("b", 37, "too few"))
    topics = [
        partitions_wire.CreatePartitionsTopic("a", 4, [partitions_wire.CreatePartitionsAssignment([2])]),
        partitions_wire.CreatePartitionsTopic("b", 1, None),
    ]
    request = partitions_wire.CreatePartitionsRequest(topics, timeout_ms=1000, validate_only=True)
    response = await create_partitions.handle(gateway, context(3), request)
    wanted = CreatePartitions((MorePartitions("a", 4, ((2,),)), MorePartitions("b", 1)), validate_only=True, client=STRICT)
    assert gateway.requests == [(CREATE_PARTITIONS, wanted, 1.0)]
    assert [(r.name, r.error_code, r.error_message) for r in response.results] == [("a", 0, None), ("b", 37, "too few")]


@pytest.mark.parametrize("version", range(2, 8))
async def test_versions_of_create_topics_before_6_are_permissive_and_tell_the_throttle_time(version: int) -> None:
    gateway = answering(TopicResult("t", ErrorCode.THROTTLING_QUOTA_EXCEEDED, "slowly"), throttle_ms=1500)
    request = create_wire.CreateTopicsRequest([create_wire.CreatableTopic("t", 1, 1)])
    response = await create_topics.handle(gateway, context(version), request)
    assert response.throttle_time_ms == 1500
    wanted = gateway.requests[0][1]
    assert isinstance(wanted, CreateTopics)
    assert wanted.client == (STRICT if version >= 6 else PERMISSIVE)


@pytest.mark.parametrize("version", range(1, 7))
async def test_versions_of_delete_topics_before_5_are_permissive_and_tell_the_throttle_time(version: int) -> None:
    gateway = answering(TopicResult("t", ErrorCode.THROTTLING_QUOTA_EXCEEDED, "slowly"), throttle_ms=1500)
    request = delete_wire.DeleteTopicsRequest([delete_wire.DeleteTopicState("t", NO_UUID)], ["t"])
    response = await delete_topics.handle(gateway, context(version), request)
    assert response.throttle_time_ms == 1500
    wanted = gateway.requests[0][1]
    assert isinstance(wanted, DeleteTopics)
    assert wanted.client == (STRICT if version >= 5 else PERMISSIVE)


@pytest.mark.parametrize("version", range(4))
async def test_versions_of_create_partitions_before_3_are_permissive_and_tell_the_throttle_time(version: int) -> None:
    gateway = answering(TopicResult("t", ErrorCode.THROTTLING_QUOTA_EXCEEDED, "slowly"), throttle_ms=1500)
    request = partitions_wire.CreatePartitionsRequest([partitions_wire.CreatePartitionsTopic("t", 2)])
    response = await create_partitions.handle(gateway, context(version), request)
    assert response.throttle_time_ms == 1500
    wanted = gateway.requests[0][1]
    assert isinstance(wanted, CreatePartitions)
    assert wanted.client == (STRICT if version >= 3 else PERMISSIVE)
