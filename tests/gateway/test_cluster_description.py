"""DescribeCluster and DescribeTopicPartitions."""

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from libs.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from services.gateway.handlers import describe_cluster, describe_topic_partitions
from tests.gateway.fake_gateway import Cluster, FakeGateway, context


async def describe(request: DescribeClusterRequest, cluster: Cluster | None = None) -> DescribeClusterResponse:
    return await describe_cluster.handle(FakeGateway(cluster or Cluster(dead=(4,))), context(2, broker_id=2), request)


async def test_the_cluster_is_its_live_brokers() -> None:
    response = await describe(DescribeClusterRequest())
    assert (response.error_code, response.cluster_id, response.controller_id, response.endpoint_type) == (0, "test-cluster", 2, 1)
    assert [(b.broker_id, b.host, b.port, b.is_fenced) for b in response.brokers] == [
        (1, "gateway", 9093, False),
        (2, "gateway", 9094, False),
        (3, "gateway", 9095, False),
    ]
    assert response.cluster_authorized_operations == -(2**31)


async def test_the_cluster_is_its_live_brokers_while_metadata_still_names_a_dead_one() -> None:
    gateway = FakeGateway(Cluster(dead=(4,)))
    gateway.listed_fenced = {4}
    response = await describe_cluster.handle(gateway, context(2, broker_id=4), DescribeClusterRequest())
    assert [b.broker_id for b in response.brokers] == [1, 2, 3]
    assert response.controller_id == 1


async def test_dead_brokers_are_shown_as_fenced_on_request() -> None:
    response = await describe(DescribeClusterRequest(include_fenced_brokers=True, include_cluster_authorized_operations=True))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, False), (3, False), (4, True)]
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(("kind", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)])
async def test_other_endpoint_types_are_refused(kind: int, error: ErrorCode) -> None:
    response = await describe(DescribeClusterRequest(endpoint_type=kind))
    assert response.error_code == error
    assert response.brokers == []


THREE_TOPICS = Cluster(topics={"a": (1, 2, 3), "b": (1, -1), "c": (2,)})


async def page(limit: int = 2000, cursor: Cursor | None = None, names: tuple[str, ...] = ()) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    return await describe_topic_partitions.handle(FakeGateway(THREE_TOPICS), context(0), request)


def shown(response: DescribeTopicPartitionsResponse) -> dict[str | None, list[int]]:
    return {topic.name: [p.partition_index for p in topic.partitions] for topic in response.topics}


async def test_no_names_ask_for_all_topics_in_order() -> None:
    response = await page()
    assert shown(response) == {"a": [0, 1, 2], "b": [0, 1], "c": [0]}
    assert response.next_cursor is None
    assert [p.error_code for p in response.topics[1].partitions] == [0, ErrorCode.LEADER_NOT_AVAILABLE]
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.topics[0].partitions[0].eligible_leader_replicas == []


async def test_pages_follow_each_other_until_all_is_shown() -> None:
    seen: list[tuple[str | None, int]] = []
    cursor, pages = None, 0
    while True:
        response = await page(2, cursor)
        pages += 1
        shown = [(topic.name, p.partition_index) for topic in response.topics for p in topic.partitions]
        assert len(shown) <= 2
        seen += shown
        if (cursor := response.next_cursor) is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    assert pages == 3


async def test_a_page_that_ends_with_a_topic_goes_on_with_the_next() -> None:
    response = await page(3)
    assert response.next_cursor == Cursor("b", 0)


async def test_a_cursor_into_a_topic_that_is_gone_goes_on_with_the_next() -> None:
    assert shown(await page(cursor=Cursor("aa", 7))) == {"b": [0, 1], "c": [0]}


async def test_a_limit_below_one_still_makes_progress() -> None:
    assert shown(await page(-5)) == {"a": [0]}


async def test_topics_that_do_not_exist_have_their_own_errors() -> None:
    response = await page(names=("nobody", "b", "a/b", "b"))
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "b": 0,
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_cursor_below_zero_is_an_invalid_request() -> None:
    response = await page(cursor=Cursor("a", -1), names=("a",))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", ErrorCode.INVALID_REQUEST)]
