"""A gateway's image may be behind. What it does not know yet, nobody may use without a decision."""

from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclOperation, ResourceType
from libs.cluster.records import Topic
from libs.rpc.contracts.storage import Fetched, FetchReply
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import delete_topics, offset_commit, offset_fetch
from tests.gateway.answered_errors import errors_of
from tests.gateway.conftest import TOPIC, TOPIC_ID
from tests.gateway.fake_groups import ask, response_body, send
from tests.gateway.granted_acls import acl, grant, settled
from tests.gateway.kafka_client import fetch_body
from tests.gateway.whole_rig import GROUP, Asked, Cluster, produce, started_cluster
from tests.support.polling import until

NEW, NEW_ID = "new", bytes(range(48, 64))
UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
READ, DESCRIBE, TOPICS, GROUPS = AclOperation.READ, AclOperation.DESCRIBE, ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster(authorizer="StandardAuthorizer") as made:
        yield made


async def hears_of_the_topic(cluster: Cluster) -> None:
    await cluster.rig.put(keys.topic(NEW), Topic(NEW, NEW_ID.hex(), 1))
    await cluster.rig.lead(0, 1, topic_id=NEW_ID)
    await settled(cluster.rig)


@pytest.mark.parametrize(
    "request_",
    [produce(13, topic=NEW_ID), (ApiKey.FETCH, 16, fetch_body(16, [(NEW_ID, [(0, 0)])], max_wait_ms=1))],
    ids=["produce", "fetch"],
)
async def test_a_shortcut_is_not_learnt_from_a_topic_id_that_is_unknown(request_: Asked, cluster: Cluster) -> None:
    key, version, _ = request_
    client = await cluster.rig.client(1)
    for _ in range(2):
        send(client, *request_)
        assert await errors_of(client, key, version) == [UNKNOWN_TOPIC_ID]
    await hears_of_the_topic(cluster)
    send(client, *request_)
    assert await errors_of(client, key, version) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_a_fetch_that_waits_does_not_begin_to_read_a_topic_that_was_unknown(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(READ, TOPICS, TOPIC))
    node = cluster.rig.nodes[1]
    node.holding_fetches = True
    client = await cluster.rig.client(1)
    send(client, ApiKey.FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)]), (NEW_ID, [(0, 0)])]))
    await until(lambda: len(node.parked_fetches) == 1)
    await hears_of_the_topic(cluster)
    (call,) = node.parked_fetches
    call.reply(FetchReply((Fetched(0, 2, 2, 0),)))
    assert await errors_of(client, ApiKey.FETCH, 16) == [UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (delete_topics.DeleteTopicState(None, NEW_ID), UNKNOWN_TOPIC_ID),
        (delete_topics.DeleteTopicState(NEW), UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["by id", "by name"],
)
async def test_the_controller_is_not_asked_to_delete_a_topic_that_is_unknown_here(
    topic: delete_topics.DeleteTopicState, error: ErrorCode, cluster: Cluster
) -> None:
    await grant(cluster.rig, acl(DESCRIBE, TOPICS, NEW))
    client = await cluster.rig.client(1)
    answer = await ask(client, ApiKey.DELETE_TOPICS, 6, delete_topics.DeleteTopicsRequest([topic], timeout_ms=1000))
    assert [(result.name, result.topic_id, result.error_code) for result in answer.responses] == [
        (topic.name, topic.topic_id, error)
    ]


async def test_a_coordinator_is_not_told_of_topic_ids_that_are_unknown_here(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(READ, GROUPS, GROUP), acl(READ, TOPICS, TOPIC))
    client = await cluster.rig.client(1)
    topics = [offset_commit.OffsetCommitRequestTopic(NEW_ID, partitions=[offset_commit.OffsetCommitRequestPartition(0, 5)])]
    answer = await ask(client, ApiKey.OFFSET_COMMIT, 10, offset_commit.OffsetCommitRequest(GROUP, topics=topics))
    assert [(t.topic_id, [p.error_code for p in t.partitions]) for t in answer.topics] == [(NEW_ID, [UNKNOWN_TOPIC_ID])]
    nothing = offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup(GROUP, [])])
    coordinator = cluster.groups.coordinators[1]
    coordinator.answers[ApiKey.OFFSET_FETCH] = response_body(ApiKey.OFFSET_FETCH, 10, nothing)
    group = offset_fetch.OffsetFetchRequestGroup(GROUP, topics=[offset_fetch.OffsetFetchRequestTopics(NEW_ID, "", [0])])
    fetched = await ask(client, ApiKey.OFFSET_FETCH, 10, offset_fetch.OffsetFetchRequest(groups=[group]))
    (of_group,) = fetched.groups
    assert [(t.topic_id, [p.error_code for p in t.partitions]) for t in of_group.topics] == [(NEW_ID, [UNKNOWN_TOPIC_ID])]
    assert not any(NEW_ID in heard.body for heard in coordinator.heard)
