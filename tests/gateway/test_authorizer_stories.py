"""Scenarios of Kafka's AuthorizerIntegrationTest that name more than one resource, or all of them.

Each API with each permission, one at a time, is in `tests/compat/differential/test_authorization.py`.
"""

from collections.abc import AsyncIterator

import pytest

from libs.cluster.acls import AclBinding, AclOperation, AclPermission, ResourceType
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import add_offsets_to_txn, add_partitions_to_txn, consumer_group_describe, end_txn, list_groups
from libs.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from libs.wire.primitives import Writer
from tests.gateway.answered_errors import errors_of
from tests.gateway.conftest import TOPIC
from tests.gateway.fake_groups import ask, send
from tests.gateway.granted_acls import acl, grant, revoke
from tests.gateway.whole_rig import GROUP, TRANSACTION, Cluster, fetch, produce, started_cluster

TOPICS, GROUPS, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONS = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
NAMES = (GROUP, "other group")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster(authorizer="StandardAuthorizer") as made:
        yield made


@pytest.mark.parametrize("is_target", [False, True])
async def test_a_group_is_described_to_whoever_may_describe_each_topic_that_it_reads(cluster: Cluster, is_target: bool) -> None:
    """testConsumerGroupDescribeWithGroupDescribeAndTopicDescribeAcl and those without the second (CVE-2026-41115)."""
    await grant(cluster.rig, *(acl(DESCRIBE, GROUPS, name) for name in NAMES), acl(DESCRIBE, TOPICS, TOPIC))
    seen, hidden = (Assignment([TopicPartitions(topic_name=name, partitions=[0])]) for name in (TOPIC, "hidden"))
    assigned = Member(assignment=seen, target_assignment=hidden) if is_target else Member(assignment=hidden)
    groups = [
        DescribedGroup(group_id=NAMES[0], group_state="Stable", members=[Member(assignment=seen)]),
        DescribedGroup(group_id=NAMES[1], group_state="Stable", members=[Member(assignment=seen), assigned]),
    ]
    writer = Writer()
    consumer_group_describe.write_response(writer, consumer_group_describe.ConsumerGroupDescribeResponse(groups=groups), 1)
    cluster.groups.coordinators[1].answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = bytes(writer.buffer)
    client = await cluster.rig.client(1)
    request = consumer_group_describe.ConsumerGroupDescribeRequest(list(NAMES))
    answer = await ask(client, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)
    described = {group.group_id: group for group in answer.groups}
    assert (described[NAMES[0]].error_code, len(described[NAMES[0]].members)) == (ErrorCode.NONE, 1)
    refused = described[NAMES[1]]
    assert (refused.error_code, refused.members, refused.group_state) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [], "")


@pytest.mark.parametrize(
    ("granted", "shown"),
    [
        ([acl(DESCRIBE, CLUSTER)], set(NAMES)),
        ([acl(READ, GROUPS, GROUP)], {GROUP}),
        ([acl(DESCRIBE, GROUPS, "*")], set(NAMES)),
        ([acl(DESCRIBE, GROUPS, "*"), acl(DESCRIBE, GROUPS, GROUP, permission=AclPermission.DENY)], {"other group"}),
        ([], set()),
    ],
)
async def test_groups_are_listed_to_whoever_may_describe_them_or_the_cluster(
    cluster: Cluster, granted: list[AclBinding], shown: set[str]
) -> None:
    """testListGroupApiWithAndWithoutListGroupAcls."""
    await grant(cluster.rig, *granted)
    writer = Writer()
    groups = [list_groups.ListedGroup(name, "consumer") for name in NAMES]
    list_groups.write_response(writer, list_groups.ListGroupsResponse(groups=groups), 5)
    cluster.groups.coordinators[1].answers[ApiKey.LIST_GROUPS] = bytes(writer.buffer)
    client = await cluster.rig.client(1)
    answer = await ask(client, ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest())
    assert answer.error_code == ErrorCode.NONE
    assert {group.group_id for group in answer.groups} == shown


async def test_a_transaction_is_aborted_after_a_denied_topic_and_not_once_its_id_is_denied(cluster: Cluster) -> None:
    """shouldSuccessfullyAbortTransactionAfterTopicAuthorizationException, and those without access at the end and at offsets."""
    mine = acl(WRITE, TRANSACTIONS, TRANSACTION)
    await grant(cluster.rig, mine, acl(READ, GROUPS, GROUP), acl(DESCRIBE, TOPICS, TOPIC))
    client = await cluster.rig.client(1)
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    added = add_partitions_to_txn.AddPartitionsToTxnRequest([], TRANSACTION, 7, 0, topics)
    (result,) = (await ask(client, ApiKey.ADD_PARTITIONS_TO_TXN, 3, added)).results_by_topic_v3_and_below
    (partition,) = result.results_by_partition
    assert partition.partition_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not cluster.transactions.heard
    ended, offsets = Writer(), Writer()
    end_txn.write_response(ended, end_txn.EndTxnResponse(), 2)
    add_offsets_to_txn.write_response(offsets, add_offsets_to_txn.AddOffsetsToTxnResponse(), 2)
    cluster.transactions.answers = {ApiKey.END_TXN: bytes(ended.buffer), ApiKey.ADD_OFFSETS_TO_TXN: bytes(offsets.buffer)}
    asked: dict[ApiKey, object] = {
        ApiKey.END_TXN: end_txn.EndTxnRequest(TRANSACTION, 7, 0, False),
        ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.AddOffsetsToTxnRequest(TRANSACTION, 7, 0, GROUP),
    }
    for key, request in asked.items():
        assert (await ask(client, key, 2, request)).error_code == ErrorCode.NONE
    assert len(cluster.transactions.heard) == 2
    await revoke(cluster.rig, mine)
    for key, request in asked.items():
        assert (await ask(client, key, 2, request)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert len(cluster.transactions.heard) == 2


async def test_a_denial_of_one_topic_stands_beside_the_permission_for_all_and_ends_what_was_repeated(cluster: Cluster) -> None:
    """Those with WildCardAuth, and what Kafka denies beside them; also on the shortcuts of Produce and Fetch."""
    await grant(cluster.rig, acl(WRITE, TOPICS, "*"), acl(READ, TOPICS, "*"))
    client = await cluster.rig.client(1)
    for asked in (produce(9), produce(9), fetch(11, 0), fetch(11, 0)):
        send(client, *asked)
        assert await errors_of(client, *asked[:2]) == []
    for operation in (WRITE, READ):
        await grant(cluster.rig, acl(operation, TOPICS, TOPIC, permission=AclPermission.DENY))
    for asked in (produce(9), fetch(11, 0)):
        send(client, *asked)
        assert await errors_of(client, *asked[:2]) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
