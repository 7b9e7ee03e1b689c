"""OffsetDelete (version 0, KIP-496): offsets of topics that no member of the group reads."""

from typing import Any

from libs.coordinator.core.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetRemoved
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets


def decide_deletion(
    kind: Kind, table: OffsetTable, pending: PendingOffsets, request: OffsetDeleteRequest, topics: TopicsView
) -> Decision[OffsetDeleteResponse, Any]:
    name = request.group_id
    error = ErrorCode.INVALID_GROUP_ID if not name else kind.offset_deletion_error(name)
    if error:
        return Decision(OffsetDeleteResponse(error_code=error))
    subscription = kind.subscription(name)
    removed: dict[OffsetRemoved, None] = {}
    answers: dict[str, OffsetDeleteResponseTopic] = {}

    def answer(topic: str, index: int, error: ErrorCode) -> None:
        answers.setdefault(topic, OffsetDeleteResponseTopic(topic)).partitions.append(OffsetDeleteResponsePartition(index, error))

    there: list[tuple[str, int]] = []
    for topic in request.topics:
        view = topics.by_name.get(topic.name)
        for partition in topic.partitions:
            if view is not None and 0 <= partition.partition_index < view.partitions:
                there.append((topic.name, partition.partition_index))
            else:  # Kafka's answers begin with unknown partitions
                answer(topic.name, partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic_name, index in there:
        if topic_name in subscription:
            answer(topic_name, index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        if table.get(name, topic_name, index) is not None or pending.is_pending(name, topic_name, index):
            removed[OffsetRemoved(name, topic_name, index)] = None
        answer(topic_name, index, ErrorCode.NONE)
    return Decision(OffsetDeleteResponse(topics=list(answers.values())), list(removed))
