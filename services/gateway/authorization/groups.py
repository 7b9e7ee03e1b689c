"""What requests about groups and their offsets need."""

from collections.abc import Sequence
from typing import Any

from libs.cluster.acls import AclOperation, ResourceType
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages import consumer_group_heartbeat, delete_groups, offset_commit, offset_delete, offset_fetch
from libs.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from libs.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from libs.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from libs.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from libs.wire.messages.list_groups import ListGroupsRequest
from services.gateway.authorization.access import (
    GROUP_DENIED,
    MESSAGES,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    UNKNOWN_TOPIC_ID,
    Access,
    Check,
    Filtered,
    Outcome,
    Refused,
    with_refusals,
)
from services.gateway.authorization.listings import shown

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE

NO_BROKER = -1
NO_OFFSET = -1
FIRST_BY_ID = 10
"""The version of OffsetCommit and of OffsetFetch from which on they name topics by id."""
FIRST_WITH_SEVERAL_GROUPS = 8
FIRST_WITH_SEVERAL_KEYS = 4

_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def membership(key: ApiKey) -> Check:
    """READ on the group: a check for requests of members."""

    def check(access: Access, request: Any, version: int) -> Outcome:
        return None if access.may(READ, GROUP, request.group_id) else Refused(refusal(key, request, GROUP_DENIED, version))

    return check


def refusal(key: ApiKey, request: Any, error: int, version: int) -> Any:
    """The response that has the error everywhere."""
    refused = APIS[key].refused
    assert refused is not None, "a coordinator decides it"
    return refused(request, error, version)


def consumer_group_heartbeat_(
    access: Access, request: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, version: int
) -> Outcome:
    """READ on the group, and DESCRIBE on each topic that is subscribed by name. The coordinator decides on those that a regular
    expression matches."""
    response = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    if not access.may(READ, GROUP, request.group_id):
        return Refused(response(error_code=GROUP_DENIED, error_message=MESSAGES[GROUP_DENIED]))
    _, denied = access.split(DESCRIBE, TOPIC, request.subscribed_topic_names or (), str)
    return Refused(response(error_code=TOPIC_DENIED, error_message=MESSAGES[TOPIC_DENIED])) if denied else None


def offset_commit_(access: Access, request: offset_commit.OffsetCommitRequest, version: int) -> Outcome:
    """READ on the group and on each topic."""
    if not access.may(READ, GROUP, request.group_id):
        return Refused(refusal(ApiKey.OFFSET_COMMIT, request, GROUP_DENIED, version))
    request.topics, denied = _split(access, READ, request.topics, version)
    if not denied:
        return None
    partition = offset_commit.OffsetCommitResponsePartition
    refused = [
        offset_commit.OffsetCommitResponseTopic(
            topic.topic_id, topic.name, [partition(p.partition_index, error) for p in topic.partitions]
        )
        for topic, error in denied
    ]
    if not request.topics:
        return Refused(offset_commit.OffsetCommitResponse(topics=refused))
    return with_refusals(request, lambda response: response.topics, refused)


def _split(
    access: Access, operation: AclOperation, topics: Sequence[Any], version: int
) -> tuple[list[Any], list[tuple[Any, int]]]:
    """The topics that are allowed, and the others with their errors."""
    if version < FIRST_BY_ID:
        allowed, denied = access.split(operation, TOPIC, topics, lambda topic: topic.name)
        return allowed, [(topic, TOPIC_DENIED) for topic in denied]
    unknown = [(topic, UNKNOWN_TOPIC_ID) for topic in topics if access.name_of(topic.topic_id) is None]
    known = [topic for topic in topics if access.name_of(topic.topic_id) is not None]
    allowed, denied = access.split(operation, TOPIC, known, lambda topic: access.name_of(topic.topic_id) or "")
    return allowed, [(topic, TOPIC_DENIED) for topic in denied] + unknown


def offset_delete_(access: Access, request: offset_delete.OffsetDeleteRequest, version: int) -> Outcome:
    """DELETE on the group, and READ on each topic."""
    if not access.may(DELETE, GROUP, request.group_id):
        return Refused(refusal(ApiKey.OFFSET_DELETE, request, GROUP_DENIED, version))
    request.topics, denied = access.split(READ, TOPIC, request.topics, lambda topic: topic.name)
    if not denied:
        return None
    partition = offset_delete.OffsetDeleteResponsePartition
    refused = [
        offset_delete.OffsetDeleteResponseTopic(
            topic.name, [partition(p.partition_index, TOPIC_DENIED) for p in topic.partitions]
        )
        for topic in denied
    ]

    async def complete(response: offset_delete.OffsetDeleteResponse) -> offset_delete.OffsetDeleteResponse:
        if not response.error_code:
            response.topics += refused
        return response

    return Filtered(request, complete)


def offset_fetch_(access: Access, request: offset_fetch.OffsetFetchRequest, version: int) -> Outcome:
    """DESCRIBE on each group, and on each topic. In a request for all topics, others are not shown."""
    if version < FIRST_WITH_SEVERAL_GROUPS:
        return _fetch_one(access, request, version)
    allowed, denied = access.split(DESCRIBE, GROUP, request.groups, lambda group: group.group_id)
    refused_topics: list[list[tuple[Any, int]]] = []
    for group in allowed:
        topics: list[tuple[Any, int]] = []
        if group.topics is not None:
            group.topics, topics = _split(access, DESCRIBE, group.topics, version)
        refused_topics.append(topics)
    all_topics = [group.topics is None for group in allowed]
    if not denied and not any(refused_topics) and not any(all_topics):
        return None
    request.groups = allowed
    refused = [offset_fetch.OffsetFetchResponseGroup(group.group_id, [], GROUP_DENIED) for group in denied]
    if not allowed:
        return Refused(offset_fetch.OffsetFetchResponse(groups=refused))

    async def complete(response: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        for group, topics, for_all in zip(response.groups, refused_topics, all_topics, strict=True):
            if group.error_code:
                continue
            if for_all:
                group.topics = [topic for topic in group.topics if _sees_offsets(access, topic, version)]
            group.topics += [_without_offsets(topic, error) for topic, error in topics]
        response.groups += refused
        return response

    return Filtered(request, complete)


def _sees_offsets(access: Access, topic: offset_fetch.OffsetFetchResponseTopics, version: int) -> bool:
    name = topic.name if version < FIRST_BY_ID else access.name_of(topic.topic_id)
    return name is not None and access.sees(DESCRIBE, TOPIC, name)


def _without_offsets(topic: offset_fetch.OffsetFetchRequestTopics, error: int) -> offset_fetch.OffsetFetchResponseTopics:
    partition = offset_fetch.OffsetFetchResponsePartitions
    partitions = [partition(index, NO_OFFSET, metadata="", error_code=error) for index in topic.partition_indexes]
    return offset_fetch.OffsetFetchResponseTopics(topic.topic_id, topic.name, partitions)


def _fetch_one(access: Access, request: offset_fetch.OffsetFetchRequest, version: int) -> Outcome:
    """The versions that name one group, at the top level."""
    if not access.may(DESCRIBE, GROUP, request.group_id):
        return Refused(refusal(ApiKey.OFFSET_FETCH, request, GROUP_DENIED, version))
    for_all = request.topics is None
    denied: list[offset_fetch.OffsetFetchRequestTopic] = []
    if request.topics is not None:
        request.topics, denied = access.split(DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
    if not denied and not for_all:
        return None
    partition = offset_fetch.OffsetFetchResponsePartition
    refused = [
        offset_fetch.OffsetFetchResponseTopic(
            topic.name,
            [partition(index, NO_OFFSET, metadata="", error_code=TOPIC_DENIED) for index in topic.partition_indexes],
        )
        for topic in denied
    ]

    async def complete(response: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        if response.error_code:
            return response
        if for_all:
            response.topics = [topic for topic in response.topics if access.sees(DESCRIBE, TOPIC, topic.name)]
        response.topics += refused
        return response

    return Filtered(request, complete)


def find_coordinator(access: Access, request: FindCoordinatorRequest, version: int) -> Outcome:
    """DESCRIBE on each group or transactional id."""
    kinds = {0: (GROUP, GROUP_DENIED), 1: (TRANSACTIONAL_ID, TRANSACTIONAL_ID_DENIED)}
    if request.key_type not in kinds:
        return None  # there is no such coordinator
    kind, error = kinds[request.key_type]
    if version < FIRST_WITH_SEVERAL_KEYS:
        if access.may(DESCRIBE, kind, request.key):
            return None
        refused = FindCoordinatorResponse(error_code=error, error_message=MESSAGES[error], node_id=NO_BROKER, port=NO_BROKER)
        return Refused(refused)
    request.coordinator_keys, denied = access.split(DESCRIBE, kind, request.coordinator_keys, str)
    if not denied:
        return None
    refusals = [Coordinator(key, NO_BROKER, "", NO_BROKER, error, MESSAGES[error]) for key in denied]
    return with_refusals(request, lambda response: response.coordinators, refusals)


def describe_groups(access: Access, request: DescribeGroupsRequest, version: int) -> Outcome:
    """DESCRIBE on each group."""
    request.groups, denied = access.split(DESCRIBE, GROUP, request.groups, str)
    if not denied and not request.include_authorized_operations:
        return None
    refused = [ClassicGroup(GROUP_DENIED, MESSAGES[GROUP_DENIED], group) for group in denied]

    async def complete(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            _tell_operations(access, response.groups)
        response.groups += refused
        return response

    return Filtered(request, complete)


def _tell_operations(access: Access, groups: Sequence[ClassicGroup | DescribedGroup]) -> None:
    for group in groups:
        if not group.error_code:
            group.authorized_operations = access.operations(GROUP, group.group_id)


def consumer_group_describe(access: Access, request: ConsumerGroupDescribeRequest, version: int) -> Outcome:
    """DESCRIBE on each group, and on each topic that its members are assigned."""
    request.group_ids, denied = access.split(DESCRIBE, GROUP, request.group_ids, str)
    refused = [DescribedGroup(GROUP_DENIED, MESSAGES[GROUP_DENIED], group) for group in denied]

    async def complete(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            _tell_operations(access, response.groups)
        response.groups = [
            group if _sees_assignments(access, group) else DescribedGroup(TOPIC_DENIED, _HIDDEN, group.group_id)
            for group in response.groups
        ]
        response.groups += refused
        return response

    return Filtered(request, complete)


def _sees_assignments(access: Access, group: DescribedGroup) -> bool:
    names = {
        partitions.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for partitions in assignment.topic_partitions
    }
    return all(access.sees(DESCRIBE, TOPIC, name) for name in names)


def delete_groups_(access: Access, request: delete_groups.DeleteGroupsRequest, version: int) -> Outcome:
    """DELETE on each group."""
    request.groups_names, denied = access.split(DELETE, GROUP, dict.fromkeys(request.groups_names), str)
    if not denied:
        return None
    refused = [delete_groups.DeletableGroupResult(group, GROUP_DENIED) for group in denied]
    return with_refusals(request, lambda response: response.results, refused)


def list_groups(access: Access, request: ListGroupsRequest, version: int) -> Outcome:
    """DESCRIBE on the cluster shows all groups. Else those are shown that the client may DESCRIBE."""
    if access.sees_on_cluster(DESCRIBE):
        return None
    return Filtered(request, shown(ApiKey.LIST_GROUPS, version, lambda group: access.sees(DESCRIBE, GROUP, group)))
