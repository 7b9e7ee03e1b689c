"""What a client is told when no coordinator answered it: an error in the words of its API, for each group, topic or partition.

As Kafka's requests make them of themselves (`getErrorResponse`), with the exceptions that its group coordinator makes: a
heartbeat to a shard that is being loaded succeeds, since its member cannot be late there; and an OffsetFetch hears 16 where
others hear 15, which consumers before 3.9 take for fatal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from libs.rpc.contracts.groups import ELEMENTS_MAX
from libs.wire.api import ApiKey
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
from libs.wire.primitives import Reader, Writer

WORDS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}

NOWHERE: Final = -1
"""The offset and the leader epoch of what nobody could look up."""

TOP_LEVEL_ERROR: Final = 2
"""The version of OffsetFetch from which on an error is told once and not for each partition."""


def refuse(writer: Writer, key: ApiKey, version: int, body: bytes, error: int, group_id: str) -> None:
    """Writes the response's body. Raises ProtocolError for what is no such request."""
    api = _APIS[key]
    reader = Reader(memoryview(body))
    reader.elements_left = ELEMENTS_MAX
    request = api.read_request(reader, version)
    reader.expect_end()
    if not group_id and api.of_no_group:
        error = api.of_no_group  # whoever owns the shard would say so
    api.write_response(writer, api.made(request, error, version), version)


def words(error: int) -> str | None:
    """As Kafka puts it, for where a response has room for it."""
    return WORDS.get(ErrorCode(error)) if error in WORDS else None


# --- one of many groups -----------------------------------------------------------------------------------------------


def offset_fetch_group(
    group: offset_fetch.OffsetFetchRequestGroup, error: int, version: int
) -> offset_fetch.OffsetFetchResponseGroup:
    return offset_fetch.OffsetFetchResponseGroup(group.group_id, [], _for_offset_fetch(error))


def describe_group(group_id: str, error: int, version: int) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(error_code=error, error_message=words(error), group_id=group_id)


def delete_group(group_id: str, error: int, version: int) -> delete_groups.DeletableGroupResult:
    return delete_groups.DeletableGroupResult(group_id, error)


def consumer_group_describe_group(group_id: str, error: int, version: int) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(error, words(error), group_id)


# --- whole responses --------------------------------------------------------------------------------------------------


def _join_group(request: join_group.JoinGroupRequest, error: int, version: int) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(error_code=error, protocol_name=None if version >= 7 else "", member_id=request.member_id)


def _sync_group(request: sync_group.SyncGroupRequest, error: int, version: int) -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(error_code=error)


def _heartbeat(request: heartbeat.HeartbeatRequest, error: int, version: int) -> heartbeat.HeartbeatResponse:
    loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat.HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)


def _leave_group(request: leave_group.LeaveGroupRequest, error: int, version: int) -> leave_group.LeaveGroupResponse:
    return leave_group.LeaveGroupResponse(error_code=error)


def _offset_commit(request: offset_commit.OffsetCommitRequest, error: int, version: int) -> offset_commit.OffsetCommitResponse:
    response = offset_commit.OffsetCommitResponse()
    for topic in request.topics:
        partitions = [offset_commit.OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions]
        response.topics.append(offset_commit.OffsetCommitResponseTopic(topic.topic_id, topic.name, partitions))
    return response


def _offset_delete(request: offset_delete.OffsetDeleteRequest, error: int, version: int) -> offset_delete.OffsetDeleteResponse:
    return offset_delete.OffsetDeleteResponse(error_code=error)


def _offset_fetch(request: offset_fetch.OffsetFetchRequest, error: int, version: int) -> offset_fetch.OffsetFetchResponse:
    error = _for_offset_fetch(error)
    if version >= 8:
        return offset_fetch.OffsetFetchResponse(groups=[offset_fetch_group(group, error, version) for group in request.groups])
    if version >= TOP_LEVEL_ERROR:
        return offset_fetch.OffsetFetchResponse(error_code=error)
    response = offset_fetch.OffsetFetchResponse()
    for topic in request.topics or ():
        partitions = [
            offset_fetch.OffsetFetchResponsePartition(index, NOWHERE, metadata="", error_code=error)
            for index in topic.partition_indexes
        ]
        response.topics.append(offset_fetch.OffsetFetchResponseTopic(topic.name, partitions))
    return response


def _for_offset_fetch(error: int) -> int:
    return ErrorCode.NOT_COORDINATOR if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _consumer_group_heartbeat(
    request: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, error: int, version: int
) -> consumer_group_heartbeat.ConsumerGroupHeartbeatResponse:
    said = "GroupId can't be empty." if error == ErrorCode.INVALID_REQUEST else words(error)
    return consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=error, error_message=said)


def _describe_groups(
    request: describe_groups.DescribeGroupsRequest, error: int, version: int
) -> describe_groups.DescribeGroupsResponse:
    return describe_groups.DescribeGroupsResponse(groups=[describe_group(group, error, version) for group in request.groups])


def _delete_groups(request: delete_groups.DeleteGroupsRequest, error: int, version: int) -> delete_groups.DeleteGroupsResponse:
    return delete_groups.DeleteGroupsResponse(results=[delete_group(group, error, version) for group in request.groups_names])


def _consumer_group_describe(
    request: consumer_group_describe.ConsumerGroupDescribeRequest, error: int, version: int
) -> consumer_group_describe.ConsumerGroupDescribeResponse:
    described = [consumer_group_describe_group(group, error, version) for group in request.group_ids]
    return consumer_group_describe.ConsumerGroupDescribeResponse(groups=described)


@dataclass(frozen=True, slots=True)
class _Api:
    read_request: Callable[[Reader, int], Any]
    write_response: Callable[[Writer, Any, int], None]
    made: Callable[[Any, int, int], Any]
    of_no_group: int = 0  # the error for an empty group id, 0 where that is a group as any other


_NO_ID = int(ErrorCode.INVALID_GROUP_ID)

_APIS: Final = {
    ApiKey.OFFSET_COMMIT: _Api(offset_commit.read_request, offset_commit.write_response, _offset_commit),
    ApiKey.OFFSET_FETCH: _Api(offset_fetch.read_request, offset_fetch.write_response, _offset_fetch),
    ApiKey.JOIN_GROUP: _Api(join_group.read_request, join_group.write_response, _join_group, _NO_ID),
    ApiKey.HEARTBEAT: _Api(heartbeat.read_request, heartbeat.write_response, _heartbeat, _NO_ID),
    ApiKey.LEAVE_GROUP: _Api(leave_group.read_request, leave_group.write_response, _leave_group, _NO_ID),
    ApiKey.SYNC_GROUP: _Api(sync_group.read_request, sync_group.write_response, _sync_group, _NO_ID),
    ApiKey.DESCRIBE_GROUPS: _Api(describe_groups.read_request, describe_groups.write_response, _describe_groups),
    ApiKey.DELETE_GROUPS: _Api(delete_groups.read_request, delete_groups.write_response, _delete_groups),
    ApiKey.OFFSET_DELETE: _Api(offset_delete.read_request, offset_delete.write_response, _offset_delete, _NO_ID),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _Api(
        consumer_group_heartbeat.read_request,
        consumer_group_heartbeat.write_response,
        _consumer_group_heartbeat,
        int(ErrorCode.INVALID_REQUEST),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _Api(
        consumer_group_describe.read_request, consumer_group_describe.write_response, _consumer_group_describe
    ),
}
