"""Requests of a group's members, and of those who look at groups."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    write_assignment,
    write_subscription,
)
from libs.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition, call

FIND_COORDINATOR_VERSION = 3
COMMIT_VERSION, FETCH_VERSION = 9, 9
ASSIGNOR = "taking-turns"
GROUP, TRANSACTION = 0, 1

_CALLS: dict[type, tuple[ApiKey, int, Callable[..., object], Callable[..., Any]]] = {
    join_group.JoinGroupRequest: (ApiKey.JOIN_GROUP, 7, join_group.write_request, join_group.read_response),
    sync_group.SyncGroupRequest: (ApiKey.SYNC_GROUP, 5, sync_group.write_request, sync_group.read_response),
    heartbeat.HeartbeatRequest: (ApiKey.HEARTBEAT, 4, heartbeat.write_request, heartbeat.read_response),
    leave_group.LeaveGroupRequest: (ApiKey.LEAVE_GROUP, 4, leave_group.write_request, leave_group.read_response),
    offset_commit.OffsetCommitRequest: (
        *(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, offset_commit.write_request, offset_commit.read_response),
    ),
    offset_fetch.OffsetFetchRequest: (
        *(ApiKey.OFFSET_FETCH, FETCH_VERSION, offset_fetch.write_request, offset_fetch.read_response),
    ),
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: (
        *(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_group_heartbeat.write_request, consumer_group_heartbeat.read_response),
    ),
    describe_groups.DescribeGroupsRequest: (
        *(ApiKey.DESCRIBE_GROUPS, 5, describe_groups.write_request, describe_groups.read_response),
    ),
    consumer_group_describe.ConsumerGroupDescribeRequest: (
        *(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, consumer_group_describe.write_request, consumer_group_describe.read_response),
    ),
}


async def ask(link: Link, request: Any, timeout_s: float) -> Any:
    """The answer. Raises Disconnected."""
    key, version, write, read = _CALLS[type(request)]
    return await call(link, key, version, write, request, read, timeout_s)


async def coordinator(link: Link, key: str, timeout_s: float, key_type: int = GROUP) -> tuple[str, int]:
    """The address of a group's coordinator, or of a transactional id's. Raises Disconnected."""
    request = find_coordinator.FindCoordinatorRequest(key, key_type)
    found = await call(
        link,
        ApiKey.FIND_COORDINATOR,
        FIND_COORDINATOR_VERSION,
        find_coordinator.write_request,
        request,
        find_coordinator.read_response,
        timeout_s,
    )
    if found.error_code:
        raise Disconnected(f"no coordinator: error {found.error_code}", sent=False)
    return found.host, found.port


def join(
    group: str, member_id: str, instance_id: str | None, topics: Iterable[str], *, session_ms: int, rebalance_ms: int
) -> join_group.JoinGroupRequest:
    subscription = write_subscription(ConsumerProtocolSubscription(tuple(topics)), 1)
    return join_group.JoinGroupRequest(
        group,
        session_ms,
        rebalance_ms,
        member_id,
        instance_id,
        PROTOCOL_TYPE,
        protocols=[join_group.JoinGroupRequestProtocol(ASSIGNOR, subscription)],
    )


def taking_turns(members: Iterable[str], partitions: Iterable[Partition]) -> list[sync_group.SyncGroupRequestAssignment]:
    """The leader's assignment: members take turns."""
    order = sorted(members)
    shares: dict[str, list[Partition]] = {member: [] for member in order}
    for at, partition in enumerate(sorted(partitions)):
        shares[order[at % len(order)]].append(partition)
    return [sync_group.SyncGroupRequestAssignment(member, _assignment(share)) for member, share in shares.items()]


def sync(
    group: str, generation: int, member_id: str, instance_id: str | None, assigned: list[sync_group.SyncGroupRequestAssignment]
) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(group, generation, member_id, instance_id, PROTOCOL_TYPE, ASSIGNOR, assigned)


def assigned(data: bytes | memoryview) -> frozenset[Partition]:
    if not len(data):
        return frozenset()
    found = read_assignment(data).assigned_partitions
    return frozenset((one.topic, index) for one in found for index in one.partitions)


def _assignment(partitions: Iterable[Partition]) -> bytes:
    named = tuple(TopicPartition(topic, tuple(indexes)) for topic, indexes in by_topic(partitions).items())
    return write_assignment(ConsumerProtocolAssignment(named))


def commit(
    group: str, generation: int, member_id: str, instance_id: str | None, offsets: Mapping[Partition, int]
) -> offset_commit.OffsetCommitRequest:
    topics = [
        offset_commit.OffsetCommitRequestTopic(
            name=topic, partitions=[offset_commit.OffsetCommitRequestPartition(i, offsets[topic, i]) for i in indexes]
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return offset_commit.OffsetCommitRequest(group, generation, member_id, instance_id, topics=topics)


def commit_errors(answer: offset_commit.OffsetCommitResponse) -> dict[Partition, int]:
    return {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}


def fetch(
    group: str, partitions: Iterable[Partition], member_id: str | None = None, epoch: int = -1, *, require_stable: bool = False
) -> Any:
    topics = [
        offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
    groups = [offset_fetch.OffsetFetchRequestGroup(group, member_id, epoch, topics)]
    return offset_fetch.OffsetFetchRequest(groups, require_stable=require_stable)


def fetched(answer: offset_fetch.OffsetFetchResponse) -> tuple[int, dict[Partition, int]]:
    """(error, offsets)"""
    (group,) = answer.groups
    found = {(t.name, one.partition_index): one for t in group.topics for one in t.partitions}
    error = group.error_code or next((one.error_code for one in found.values() if one.error_code), 0)
    return error, {partition: one.committed_offset for partition, one in found.items()}


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found
