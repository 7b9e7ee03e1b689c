"""Responses with an error for each group, topic or partition of a request that no coordinator answered.

They are those of Kafka's requests (`getErrorResponse`), with two exceptions of its group coordinator. A heartbeat to a shard that
is being loaded succeeds, since its member cannot be late there. An OffsetFetch gets NOT_COORDINATOR (16) where others get
COORDINATOR_NOT_AVAILABLE (15), which consumers before 3.9 take for fatal.
"""

from typing import Final

from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

_MESSAGES: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}

UNKNOWN_OFFSET: Final = -1
"""The offset and the leader epoch in an error answer."""

TOP_LEVEL_ERROR: Final = 2
"""The version of OffsetFetch from which on an error stands once in the response, and not for each partition."""


def error_message(error: int) -> str | None:
    """Kafka's message for an error, for responses that have room for one."""
    return _MESSAGES.get(ErrorCode(error)) if error in _MESSAGES else None


# --- one of many groups -----------------------------------------------------------------------------------------------


def offset_fetch_group(
    group: offset_fetch.OffsetFetchRequestGroup, error: int, version: int
) -> offset_fetch.OffsetFetchResponseGroup:
    return offset_fetch.OffsetFetchResponseGroup(group.group_id, [], _for_offset_fetch(error))


def describe_group(group_id: str, error: int, version: int) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(error_code=error, error_message=error_message(error), group_id=group_id)


def delete_group(group_id: str, error: int, version: int) -> delete_groups.DeletableGroupResult:
    return delete_groups.DeletableGroupResult(group_id, error)


def consumer_group_describe_group(group_id: str, error: int, version: int) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(error, error_message(error), group_id)


# --- whole responses --------------------------------------------------------------------------------------------------


def join_group_response(request: join_group.JoinGroupRequest, error: int, version: int) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(error_code=error, protocol_name=None if version >= 7 else "", member_id=request.member_id)


def sync_group_response(request: sync_group.SyncGroupRequest, error: int, version: int) -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(error_code=error)


def heartbeat_response(request: heartbeat.HeartbeatRequest, error: int, version: int) -> heartbeat.HeartbeatResponse:
    loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat.HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)


def leave_group_response(request: leave_group.LeaveGroupRequest, error: int, version: int) -> leave_group.LeaveGroupResponse:
    return leave_group.LeaveGroupResponse(error_code=error)


def offset_commit_response(
    request: offset_commit.OffsetCommitRequest, error: int, version: int
) -> offset_commit.OffsetCommitResponse:
    response = offset_commit.OffsetCommitResponse()
    for topic in request.topics:
        partitions = [offset_commit.OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions]
        response.topics.append(offset_commit.OffsetCommitResponseTopic(topic.topic_id, topic.name, partitions))
    return response


def offset_delete_response(
    request: offset_delete.OffsetDeleteRequest, error: int, version: int
) -> offset_delete.OffsetDeleteResponse:
    return offset_delete.OffsetDeleteResponse(error_code=error)


def offset_fetch_response(request: offset_fetch.OffsetFetchRequest, error: int, version: int) -> offset_fetch.OffsetFetchResponse:
    error = _for_offset_fetch(error)
    if version >= 8:
        return offset_fetch.OffsetFetchResponse(groups=[offset_fetch_group(group, error, version) for group in request.groups])
    if version >= TOP_LEVEL_ERROR:
        return offset_fetch.OffsetFetchResponse(error_code=error)
    response = offset_fetch.OffsetFetchResponse()
    for topic in request.topics or ():
        partitions = [
            offset_fetch.OffsetFetchResponsePartition(index, UNKNOWN_OFFSET, metadata="", error_code=error)
            for index in topic.partition_indexes
        ]
        response.topics.append(offset_fetch.OffsetFetchResponseTopic(topic.name, partitions))
    return response


def _for_offset_fetch(error: int) -> int:
    return ErrorCode.NOT_COORDINATOR if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def consumer_group_heartbeat_response(
    request: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, error: int, version: int
) -> consumer_group_heartbeat.ConsumerGroupHeartbeatResponse:
    message = "GroupId can't be empty." if error == ErrorCode.INVALID_REQUEST else error_message(error)
    return consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def describe_groups_response(
    request: describe_groups.DescribeGroupsRequest, error: int, version: int
) -> describe_groups.DescribeGroupsResponse:
    return describe_groups.DescribeGroupsResponse(groups=[describe_group(group, error, version) for group in request.groups])


def delete_groups_response(
    request: delete_groups.DeleteGroupsRequest, error: int, version: int
) -> delete_groups.DeleteGroupsResponse:
    return delete_groups.DeleteGroupsResponse(results=[delete_group(group, error, version) for group in request.groups_names])


def consumer_group_describe_response(
    request: consumer_group_describe.ConsumerGroupDescribeRequest, error: int, version: int
) -> consumer_group_describe.ConsumerGroupDescribeResponse:
    described = [consumer_group_describe_group(group, error, version) for group in request.group_ids]
    return consumer_group_describe.ConsumerGroupDescribeResponse(groups=described)
