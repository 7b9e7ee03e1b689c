"""DescribeTopicPartitions (75), version 0 (KIP-966): topics by name, a page at a time.

A request without topics describes all. A page holds at most as many partitions as the request's limit and
max.request.partition.size.limit (2000) allow. The cursor names the next partition; topics whose names sort before it are skipped.

Differences from Kafka: eligible leader replicas are always empty, since the ISR of a partition is never empty.
"""

from typing import Final

from libs.cluster.topic_names import INTERNAL_TOPICS, is_legal
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from services.gateway.core.cluster_view import TOPIC_OPERATIONS, ClusterView
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

PARTITIONS_MAX = 2000


async def handle(
    gateway: GatewayState, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or _is_elsewhere(cursor, request)):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
                for topic in request.topics
            ]
        )
    image = gateway.image
    view = ClusterView(image, lambda node_id: gateway.broker_endpoint(node_id, context))
    requested = {topic.name for topic in request.topics} if request.topics else set(image.topics)
    names = sorted(name for name in requested if cursor is None or name >= cursor.topic_name)
    room = max(1, min(PARTITIONS_MAX, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name not in image.topics:
            response.topics.append(_missing(name))
            continue
        if room == 0:
            response.next_cursor = Cursor(name, 0)
            break
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described, after = _page(view, name, start, room)
        response.topics.append(described)
        room -= len(described.partitions)
        if after is not None:
            response.next_cursor = Cursor(name, after)
            break
    return response


def _is_elsewhere(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor names none of the requested topics."""
    return bool(request.topics) and all(topic.name != cursor.topic_name for topic in request.topics)


def _page(view: ClusterView, name: str, start: int, room: int) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """The topic with at most `room` partitions from `start` on, and the next partition, or None if there is none."""
    topic = view.image.topics[name]
    topic_id = bytes.fromhex(topic.topic_id)
    states = view.image.partitions_of(topic_id)
    end = min(len(states), start + room)
    partitions = []
    for index in range(start, end):
        seen = view.partition(states[index])
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=seen.error,
                partition_index=index,
                leader_id=seen.leader,
                leader_epoch=seen.leader_epoch,
                replica_nodes=list(seen.replicas),
                isr_nodes=list(seen.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(seen.offline),
            )
        )
    described = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic_id,
        is_internal=topic.internal or name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    return described, end if end < len(states) else None


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_TOPIC_PARTITIONS], handle)
