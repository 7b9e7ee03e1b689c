"""A client's request, as an event for the coordinator of its group."""

from typing import NamedTuple, TypeAlias

from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from libs.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from libs.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from libs.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Request: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ConsumerGroupDescribeRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
)
"""Of APIs that name several groups, only those of this shard are in `request`."""

Reply: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | ConsumerGroupHeartbeatResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ConsumerGroupDescribeResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)


class Asked(NamedTuple):
    request: Request
    """Not changed by whoever reads it."""
    version: int
    """Of the API that the client used."""
    client_id: str
    """"" where the client sent null, as in Kafka."""
    client_host: str
    """As Kafka writes an address: "/127.0.0.1"."""
    fresh_id: str
    """A UUID as text that nobody had before: what a new member's id is made with. "" with APIs that want none."""
