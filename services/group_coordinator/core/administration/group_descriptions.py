"""Descriptions of groups of every kind: DescribeGroups, ConsumerGroupDescribe, ListGroups.

DescribeGroups reports a missing group as an error from version 6 on (KIP-1043). ListGroups filters by state from version 4
(KIP-518) and by type from version 5 (KIP-848) on.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from libs.coordinator.core.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from services.group_coordinator.core.model.group_kind import Kind

Decided: TypeAlias = Decision[Any, Any]

GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""All operations, as bits: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""


def describe(kind_of: Callable[[str], Kind], request: describe_groups.DescribeGroupsRequest, version: int) -> Decided:
    groups = [kind_of(name).describe_as_classic_group(name, version) for name in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return Decision(describe_groups.DescribeGroupsResponse(groups=groups))


def consumer_describe(
    kind_of: Callable[[str], Kind], request: consumer_group_describe.ConsumerGroupDescribeRequest, version: int
) -> Decided:
    """The answer to ConsumerGroupDescribe. As in Kafka, groups without a name come first, refused without a message."""
    named = [name for name in request.group_ids if name]
    nameless = len(request.group_ids) - len(named)
    groups = [consumer_group_describe.DescribedGroup(ErrorCode.INVALID_GROUP_ID) for _ in range(nameless)]
    groups += [kind_of(name).describe_as_consumer_group(name, version) for name in named]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return Decision(consumer_group_describe.ConsumerGroupDescribeResponse(groups=groups))


def listed(groups: list[ListedGroup]) -> Decided:
    return Decision(ListGroupsResponse(groups=groups))
