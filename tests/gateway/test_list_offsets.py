"""ListOffsets: requests to each leader, and the wait for a leader that is gone."""

import asyncio

import pytest

from libs.rpc.contracts.storage import ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.messages.errors import RpcError
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_offsets import (
    ListOffsetsPartition as Wanted,
)
from libs.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from services.gateway.exchange.request_context import NodeUnavailable
from services.gateway.handlers import list_offsets
from tests.gateway.fake_gateway import Cluster, FakeGateway, context, topic_id_of


def wanting(*partitions: tuple[str, int, int], timeout_ms: int = 200) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index, timestamp in partitions:
        topics.setdefault(name, ListOffsetsTopic(name)).partitions.append(Wanted(index, 4, timestamp))
    return ListOffsetsRequest(-1, 1, list(topics.values()), timeout_ms)


async def ask(
    gateway: FakeGateway, request: ListOffsetsRequest, version: int = 10
) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
    response = await list_offsets.handle(gateway, context(version), request)
    answers = {(topic.name, p.partition_index): p for topic in response.topics for p in topic.partitions}
    assert sum(len(topic.partitions) for topic in response.topics) == len(answers)
    return answers


def echo(node_id: int, body: ListOffsets) -> ListOffsetsReply:
    """An answer whose offsets tell which node gave it."""
    return ListOffsetsReply(tuple(ListedOffset(0, node_id * 100 + p.partition, 17, 5) for p in body.partitions))


async def test_each_leader_is_asked_for_what_it_leads() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 2), "b": (1,)}))
    gateway.on_storage = echo
    answers = await ask(gateway, wanting(("a", 0, -1), ("a", 1, -2), ("b", 0, 1234)))
    assert {key: (p.error_code, p.offset, p.timestamp, p.leader_epoch) for key, p in answers.items()} == {
        ("a", 0): (0, 100, 17, 5),
        ("a", 1): (0, 201, 17, 5),
        ("b", 0): (0, 100, 17, 5),
    }
    first = (ListOffsetsPartition(topic_id_of("a"), 0, -1, 4), ListOffsetsPartition(topic_id_of("b"), 0, 1234, 4))
    assert [(node, body) for node, _, body, _ in gateway.requests] == [
        (1, ListOffsets(1, first, -1)),
        (2, ListOffsets(1, (ListOffsetsPartition(topic_id_of("a"), 1, -2, 4),), -1)),
    ]


@pytest.mark.parametrize(
    ("timestamp", "version", "served"),
    [
        (-1, 1, True),
        (-2, 1, True),
        (-3, 6, False),
        (-3, 7, True),
        (-4, 7, False),
        (-4, 8, True),
        (-5, 8, False),
        (-5, 9, True),
        (-6, 10, False),
        (-6, 11, True),
        (-7, 11, False),
    ],
)
async def test_a_special_timestamp_is_served_from_its_version_on(timestamp: int, version: int, served: bool) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = echo
    answers = await ask(gateway, wanting(("a", 0, timestamp)), version)
    assert answers["a", 0].error_code == (0 if served else ErrorCode.UNSUPPORTED_VERSION)
    assert bool(gateway.requests) == served


async def test_a_missing_partition_is_unknown_and_one_that_is_named_twice_is_an_invalid_request() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 1)}))
    gateway.on_storage = echo
    request = wanting(("a", 0, -1), ("a", 0, -2), ("a", 1, -1), ("a", 2, -1), ("a", -1, -1), ("nobody", 0, -1))
    answers = await ask(gateway, request)
    assert {key: p.error_code for key, p in answers.items()} == {
        ("a", 0): ErrorCode.INVALID_REQUEST,
        ("a", 1): 0,
        ("a", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nobody", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("failure", [NodeUnavailable(1, "refused"), RpcError(-1, "broken"), None])
async def test_a_leader_that_is_gone_is_waited_for(failure: Exception | None) -> None:
    cluster = Cluster(topics={"a": (1, 2)})
    gateway = FakeGateway(cluster)

    def storage(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        if node_id != 1:
            return echo(node_id, body)
        if failure is not None:
            raise failure
        return ListOffsetsReply(tuple(ListedOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in body.partitions))

    def elect(revision: int) -> None:
        cluster.topics["a"] = (3, 2)
        gateway.image = cluster.image(revision)

    gateway.on_storage, gateway.on_wait = storage, elect
    answers = await ask(gateway, wanting(("a", 0, -1), ("a", 1, -1), timeout_ms=10_000))
    assert [p.offset for p in answers.values()] == [300, 201]
    assert [node for node, *_ in gateway.requests] == [1, 2, 3]  # a key with a final answer is not requested again
    assert gateway.waited_for == [8]


async def test_a_lookup_by_timestamp_is_not_repeated_at_the_next_leader() -> None:
    """It may be what the leader died of. The end of a log is not."""
    cluster = Cluster(topics={"a": (1, 1, 2, 1)})
    gateway = FakeGateway(cluster)

    def storage(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        if node_id == 1:
            raise NodeUnavailable(1, "lost")
        return echo(node_id, body)

    def elect(revision: int) -> None:
        cluster.topics["a"] = (3, 3, 2, 3)
        gateway.image = cluster.image(revision)

    gateway.on_storage, gateway.on_wait = storage, elect
    answers = await ask(gateway, wanting(("a", 0, 1000), ("a", 1, -1), ("a", 2, 1000), ("a", 3, -3), timeout_ms=10_000))
    assert [p.error_code for p in answers.values()] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        0,
        0,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    asked = [(node, [each.partition for each in body.partitions]) for node, _, body, _ in gateway.requests]
    assert asked == [(1, [0, 1, 3]), (2, [2]), (3, [1])]


async def test_a_lookup_that_its_leader_has_no_time_for_has_timed_out() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 1, 2)}))

    def storage(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        if node_id == 1:
            raise NodeUnavailable(1, "no answer in time", late=True)
        return echo(node_id, body)

    gateway.on_storage = storage
    answers = await ask(gateway, wanting(("a", 0, 1000), ("a", 1, -1), ("a", 2, 1000), timeout_ms=20))
    assert [p.error_code for p in answers.values()] == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
    asked = [node for node, _, body, _ in gateway.requests if body.partitions[0].timestamp >= 0]
    assert asked == [1, 2], "no lookup is repeated"


async def test_a_lookup_that_the_leader_never_received_is_sent_to_the_next() -> None:
    cluster = Cluster(topics={"a": (1,)})
    gateway = FakeGateway(cluster)

    def storage(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        if node_id == 1:
            raise NodeUnavailable(1, "refused", sent=False)
        return echo(node_id, body)

    def elect(revision: int) -> None:
        cluster.topics["a"] = (3,)
        gateway.image = cluster.image(revision)

    gateway.on_storage, gateway.on_wait = storage, elect
    assert (await ask(gateway, wanting(("a", 0, 1000), timeout_ms=10_000)))["a", 0].offset == 300


async def test_a_leader_that_stays_away_is_not_leader_or_follower_once_the_wait_ends() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (-1, 2)}))

    def away(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        raise NodeUnavailable(node_id)

    gateway.on_storage = away
    async with asyncio.timeout(5):
        answers = await ask(gateway, wanting(("a", 0, -1), ("a", 1, -1), timeout_ms=20))
    assert {p.error_code for p in answers.values()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert {(p.offset, p.timestamp, p.leader_epoch) for p in answers.values()} == {(-1, -1, -1)}


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_other_errors_of_the_leader_reach_the_client(error: ErrorCode) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: ListOffsetsReply((ListedOffset(error),))
    assert (await ask(gateway, wanting(("a", 0, -1))))["a", 0].error_code == error
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)])
async def test_versions_without_offset_not_available_get_leader_not_available(
    version: int, error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "TIMEOUT_S_MAX", 0.02)
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: ListOffsetsReply((ListedOffset(ErrorCode.OFFSET_NOT_AVAILABLE),))
    assert (await ask(gateway, wanting(("a", 0, -1)), version))["a", 0].error_code == error


async def test_a_topic_that_is_named_twice_is_answered_once() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1, 1)}))
    gateway.on_storage = echo
    request = ListOffsetsRequest(-1, 1, [ListOffsetsTopic("a", [Wanted(index, -1, -1)]) for index in (0, 1)])
    (topic,) = (await list_offsets.handle(gateway, context(10), request)).topics
    assert [(p.partition_index, p.offset) for p in topic.partitions] == [(0, 100), (1, 101)]


async def test_a_leader_that_has_not_caught_up_yet_is_waited_for() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))

    def behind_at_first(node_id: int, body: ListOffsets) -> ListOffsetsReply:
        if len(gateway.requests) < 3:
            return ListOffsetsReply((ListedOffset(ErrorCode.OFFSET_NOT_AVAILABLE),))
        return echo(node_id, body)

    gateway.on_storage = behind_at_first
    answers = (await ask(gateway, wanting(("a", 0, -1), timeout_ms=10_000)))["a", 0]
    assert (answers.error_code, answers.offset) == (0, 100)


@pytest.mark.parametrize("version", [1, 5, 11])
async def test_a_topic_id_that_its_leader_does_not_know_is_an_unknown_topic_to_clients_that_name_topics(version: int) -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_storage = lambda node_id, body: ListOffsetsReply((ListedOffset(ErrorCode.UNKNOWN_TOPIC_ID),))
    assert (await ask(gateway, wanting(("a", 0, -1)), version))["a", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
