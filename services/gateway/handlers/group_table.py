"""The rows of the table of APIs that groups' coordinators answer."""

from typing import Final

from libs.rpc.contracts.groups import ELEMENTS_MAX, GROUPS_MAX
from libs.wire.api import ApiKey
from libs.wire.messages import consumer_group_describe as consumer_group_describe_wire
from libs.wire.messages import delete_groups as delete_groups_wire
from libs.wire.messages import describe_groups as describe_groups_wire
from libs.wire.messages import list_groups as list_groups_wire
from libs.wire.messages import offset_fetch as offset_fetch_wire
from services.gateway.api import Api
from services.gateway.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

GROUP_TABLE: Final = (
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, begin=offset_commit.begin),
    Api(
        ApiKey.OFFSET_FETCH,
        "OffsetFetch",
        1,
        10,
        offset_fetch_wire.read_request,
        offset_fetch_wire.write_response,
        offset_fetch.handle,
        begin=offset_fetch.begin,
        elements_max=ELEMENTS_MAX,
    ),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, begin=join_group.begin),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, begin=heartbeat.begin),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, begin=leave_group.begin),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, begin=sync_group.begin),
    Api(
        ApiKey.DESCRIBE_GROUPS,
        "DescribeGroups",
        0,
        6,
        describe_groups_wire.read_request,
        describe_groups_wire.write_response,
        describe_groups.handle,
        begin=describe_groups.begin,
        elements_max=GROUPS_MAX,
    ),
    Api(
        ApiKey.LIST_GROUPS,
        "ListGroups",
        0,
        5,
        list_groups_wire.read_request,
        list_groups_wire.write_response,
        list_groups.handle,
        elements_max=ELEMENTS_MAX,
    ),
    Api(
        ApiKey.DELETE_GROUPS,
        "DeleteGroups",
        0,
        2,
        delete_groups_wire.read_request,
        delete_groups_wire.write_response,
        delete_groups.handle,
        begin=delete_groups.begin,
        elements_max=GROUPS_MAX,
    ),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, begin=offset_delete.begin),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, begin=consumer_group_heartbeat.begin),
    Api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "ConsumerGroupDescribe",
        0,
        1,
        consumer_group_describe_wire.read_request,
        consumer_group_describe_wire.write_response,
        consumer_group_describe.handle,
        begin=consumer_group_describe.begin,
        elements_max=GROUPS_MAX,
    ),
)
