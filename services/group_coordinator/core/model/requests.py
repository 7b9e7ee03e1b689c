"""A client's request, as an event for the coordinator of its group."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from libs.wire.errors import ErrorCode
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
from libs.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class TransactionMarker(NamedTuple):
    """A transaction coordinator's request: the end of a producer's transaction in this shard."""

    producer_id: int
    producer_epoch: int
    commits: bool
    raises_epoch: bool
    """Whether its epoch is above that of the transaction (`transaction.version` 2)."""
    coordinator_epoch: int


class MarkerReply(NamedTuple):
    error_code: ErrorCode


Request: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
    | OffsetCommitRequest
    | TxnOffsetCommitRequest
    | TransactionMarker
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ConsumerGroupDescribeRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
)
"""A request. If its API names several groups, it holds those of this shard only."""

Reply: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | ConsumerGroupHeartbeatResponse
    | OffsetCommitResponse
    | TxnOffsetCommitResponse
    | MarkerReply
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ConsumerGroupDescribeResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)


def reads_topics(request: Request) -> bool:
    """Whether the decision depends on which topics there are. A classic member may join a group of the consumer protocol, which
    assigns partitions. A heartbeat of the consumer protocol depends on them if it joins or subscribes. Any other sees new topics
    the next time."""
    match request:
        case OffsetCommitRequest() | TxnOffsetCommitRequest() | OffsetFetchRequest() | OffsetDeleteRequest() | JoinGroupRequest():
            return True
        case ConsumerGroupHeartbeatRequest(member_epoch=0):
            return True
        case ConsumerGroupHeartbeatRequest(subscribed_topic_names=names, subscribed_topic_regex=regex):
            return names is not None or regex is not None
    return False


class RequestEvent(NamedTuple):
    request: Request
    """The request. It is never changed."""
    version: int
    """The version of the API that the client used."""
    client_id: str
    """The client id. "" if the client sent null, as in Kafka."""
    client_host: str
    """The client's address as Kafka writes it: "/127.0.0.1"."""
    fresh_id: str
    """A new UUID as text, for the id of a new member. "" for APIs that need none."""
    names: Sequence[str] | None = None
    """The groups at which ListGroups looks. None: at all of the shard."""
    describes: Callable[[str], bool] | None = None
    """Whether the client may describe a topic that its regular expression matches. None: there is no authorizer."""
