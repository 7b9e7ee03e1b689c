"""FindCoordinator. A coordinator is the broker that leads its shard's partition; share groups have none yet."""

import pytest

from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.rpc.contracts.controller import CREATE_INTERNAL_TOPIC, CreateInternalTopic, TopicResult, TopicsReply
from libs.wire.errors import ErrorCode
from libs.wire.messages.find_coordinator import FindCoordinatorRequest
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import find_coordinator
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

GROUP, TRANSACTION, SHARE = 0, 1, 2
COORDINATOR_NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
OWNERS = dict.fromkeys(range(4), "7@1")


def cluster(*leaders: int, **changes: object) -> Cluster:
    return Cluster(topics={GROUP_TOPIC: leaders}, **{"owners": OWNERS, **changes})  # type: ignore[arg-type]


async def coordinators(gateway: FakeGateway, *names: str) -> list[tuple[str, int, int, str, int]]:
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=list(names))
    response = await find_coordinator.handle(gateway, context(4), request)
    return [
        (coordinator.key, coordinator.error_code, coordinator.node_id, coordinator.host, coordinator.port)
        for coordinator in response.coordinators
    ]


async def test_groups_have_the_broker_that_leads_their_shard() -> None:
    gateway = FakeGateway(cluster(1, 2, 3, 1))
    names = [f"group {number}" for number in range(12)] + ["", "group 3"]
    brokers = [(1, 2, 3, 1)[gateway.shards.of(name)] for name in names]
    assert {1, 2, 3} == set(brokers)
    expected = [(name, 0, broker, "gateway", 9092 + broker) for name, broker in zip(names, brokers, strict=True)]
    assert await coordinators(gateway, *names) == expected
    assert gateway.requests == []


@pytest.mark.parametrize("version", range(4))
async def test_one_key_is_answered_at_the_top_level(version: int) -> None:
    request = FindCoordinatorRequest(key="a")
    response = await find_coordinator.handle(FakeGateway(cluster(3, 3, 3, 3)), context(version), request)
    assert (response.error_code, response.error_message) == (0, "NONE")
    assert (response.node_id, response.host, response.port) == (3, "gateway", 9095)


async def test_without_a_leader_the_first_replica_that_lives_stands_for_the_shard() -> None:
    gateway = FakeGateway(cluster(-1, alive=(2, 3), replicas={GROUP_TOPIC: (1, 3, 2)}))
    assert await coordinators(gateway, "a") == [("a", 0, 3, "gateway", 9095)]


async def test_a_leader_that_died_stands_for_nothing() -> None:
    gateway = FakeGateway(cluster(1, alive=(2, 3), dead=(1,), replicas={GROUP_TOPIC: (1, 3, 2)}))
    assert await coordinators(gateway, "a") == [("a", 0, 3, "gateway", 9095)]


async def test_where_no_replica_lives_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway(cluster(1, alive=(2,), dead=(1,)))
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


async def test_a_listener_that_no_gateway_serves_leads_nowhere() -> None:
    gateway = FakeGateway(cluster(1))
    gateway.without_endpoint = {1}
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


async def test_a_coordinator_behind_a_moved_broker_is_first_not_available() -> None:
    gateway = FakeGateway(cluster(1))
    gateway.moved = {1}
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


# --- before there is one ----------------------------------------------------------------------------------------------


async def test_the_topic_is_made_and_an_owner_waited_for() -> None:
    gateway = FakeGateway(Cluster())
    without_owners, owned = cluster(1, 1, owners={}).image(8), cluster(1, 1).image(9)

    def on_controller(method: str, body: object) -> TopicsReply:
        assert (method, body) == (CREATE_INTERNAL_TOPIC, CreateInternalTopic(GROUP_TOPIC))
        return TopicsReply((TopicResult(GROUP_TOPIC, 0),), 8)

    def on_wait(revision: int) -> None:
        gateway.image = without_owners if revision == 8 else owned

    gateway.on_controller, gateway.on_wait = on_controller, on_wait
    assert await coordinators(gateway, "a", "b") == [("a", 0, 1, "gateway", 9093), ("b", 0, 1, "gateway", 9093)]
    assert gateway.waited_for == [8, 9]


async def test_a_shard_without_an_owner_in_time_is_not_available() -> None:
    gateway = FakeGateway(cluster(1, owners={}))
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]
    assert gateway.waited_for == [8]


async def test_without_a_controller_nobody_is_found() -> None:
    gateway = FakeGateway(Cluster())

    def on_controller(method: str, body: object) -> TopicsReply:
        raise ControllerUnavailable("there is none")

    gateway.on_controller = on_controller
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


async def test_a_refusal_of_the_controller_is_no_coordinator() -> None:
    gateway = FakeGateway(Cluster())
    refused = TopicResult(GROUP_TOPIC, ErrorCode.INVALID_REPLICATION_FACTOR, "too few nodes")
    gateway.on_controller = lambda method, body: TopicsReply((refused,), 7)
    assert await coordinators(gateway, "a") == [("a", COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


async def test_no_keys_ask_nobody() -> None:
    assert await coordinators(FakeGateway(Cluster())) == []


# --- transactions -----------------------------------------------------------------------------------------------------


async def test_a_transactional_ids_coordinator_leads_its_partition_of_the_other_topic() -> None:
    gateway = FakeGateway(Cluster(topics={TRANSACTION_TOPIC: (2, 2), GROUP_TOPIC: (1, 1)}, owners={0: "1@1", 1: "1@1"}))
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["a", "b"])
    response = await find_coordinator.handle(gateway, context(6), request)
    assert [(found.key, found.error_code, found.node_id) for found in response.coordinators] == [("a", 0, 2), ("b", 0, 2)]


# --- others -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "key_type", "error"),
    [
        (3, SHARE, ErrorCode.INVALID_REQUEST),
        (1, 9, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_one_key_of_another_type_is_answered_at_the_top_level(version: int, key_type: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key="a", key_type=key_type)
    response = await find_coordinator.handle(FakeGateway(Cluster()), context(version), request)
    assert (response.error_code, response.node_id, response.host, response.port) == (error, -1, "", -1)
    assert response.error_message


@pytest.mark.parametrize(
    ("version", "key_type", "error"),
    [
        (6, SHARE, ErrorCode.UNSUPPORTED_VERSION),
        (5, SHARE, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_each_of_many_keys_of_another_type_has_its_answer(version: int, key_type: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    response = await find_coordinator.handle(FakeGateway(Cluster()), context(version), request)
    answers = [(coordinators.key, coordinators.error_code, coordinators.node_id) for coordinators in response.coordinators]
    assert answers == [("a", error, -1), ("b", error, -1)]
    assert all(coordinators.error_message for coordinators in response.coordinators)
