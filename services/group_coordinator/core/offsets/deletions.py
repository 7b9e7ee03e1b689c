"""OffsetDelete (version 0, KIP-496): offsets of topics that no member of the group reads."""

from typing import Any

from libs.runtime.shards.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from services.group_coordinator.core.kinds.kind import Kind
from services.group_coordinator.core.offsets.table import OffsetTable
from services.group_coordinator.core.records import OffsetRemoved
from services.group_coordinator.core.topics_view import TopicsView


def decide_deletion(
    kind: Kind, table: OffsetTable, request: OffsetDeleteRequest, topics: TopicsView
) -> Decision[OffsetDeleteResponse, Any]:
    name = request.group_id
    error = ErrorCode.INVALID_GROUP_ID if not name else kind.offset_deletion_error(name)
    if error:
        return Decision(OffsetDeleteResponse(error_code=error))
    subscription = kind.subscription(name)
    removed: dict[OffsetRemoved, None] = {}
    answers: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        view = topics.by_name.get(topic.name)
        told = []
        for one in topic.partitions:
            index, error = one.partition_index, ErrorCode.NONE
            if view is None or not 0 <= index < view.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in subscription:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif table.get(name, topic.name, index) is not None:
                removed[OffsetRemoved(name, topic.name, index)] = None
            told.append(OffsetDeleteResponsePartition(index, error))
        answers.append(OffsetDeleteResponseTopic(topic.name, told))
    return Decision(OffsetDeleteResponse(topics=answers), list(removed))
