"""What requests about topics and their records need."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from libs.cluster.acls import AclOperation, ResourceType
from libs.cluster.configs.resolve import effective_broker_bool
from libs.cluster.topic_names import INTERNAL_TOPICS, is_legal
from libs.wire.messages import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from libs.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from libs.wire.messages.fetch import FetchRequest
from libs.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopic, RequestedTopic
from libs.wire.messages.produce import ProduceRequest
from libs.wire.primitives import NO_UUID
from libs.wire.record_batches.batch_layout import FLAGS_AT, HEADER_SIZE, TRANSACTIONAL
from services.gateway.authorization.access import (
    MESSAGES,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    UNKNOWN_TOPIC_ID,
    Access,
    Denied,
    Filtered,
    Outcome,
    Refused,
    with_refusals,
)

TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
NO_OFFSET = -1
FIRST_BY_ID = 12
"""The version of Metadata from which on it may name topics by id."""


def produce(access: Access, request: ProduceRequest, version: int) -> Outcome:
    """WRITE on each topic. WRITE on the transactional id, if a batch belongs to a transaction."""
    if _has_transactional_records(request):
        transactional_id = request.transactional_id
        if transactional_id is None or not access.may(AclOperation.WRITE, TRANSACTIONAL_ID, transactional_id):
            return Denied(dict.fromkeys((_key(topic) for topic in request.topics), TRANSACTIONAL_ID_DENIED))
    return _denied_topics(access, AclOperation.WRITE, request.topics)


def fetch(access: Access, request: FetchRequest, version: int) -> Outcome:
    """READ on each topic. What followers send, every client is refused (`core/fetch_plan.py`)."""
    return _denied_topics(access, AclOperation.READ, request.topics) if request.replica_id < 0 else None


def _has_transactional_records(request: ProduceRequest) -> bool:
    return any(
        records is not None and len(records) >= HEADER_SIZE and bool(records[FLAGS_AT] & TRANSACTIONAL)
        for topic in request.topics
        for _, records in topic.partitions
    )


def _key(topic: Any) -> str | bytes:
    return topic.topic_id if topic.topic_id is not None else topic.name or ""


def _denied_topics(access: Access, operation: AclOperation, topics: Iterable[Any]) -> Outcome:
    errors: dict[str | bytes, int] = {}
    for key in dict.fromkeys(_key(topic) for topic in topics):
        name = key if isinstance(key, str) else access.name_of(key)
        if name is None:
            errors[key] = UNKNOWN_TOPIC_ID
        elif not access.may(operation, TOPIC, name):
            errors[key] = TOPIC_DENIED
    return Denied(errors) if errors else None


def list_offsets_(access: Access, request: list_offsets.ListOffsetsRequest, version: int) -> Outcome:
    """DESCRIBE on each topic."""
    request.topics, denied = access.split(AclOperation.DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
    if not denied:
        return None
    refused = [
        list_offsets.ListOffsetsTopicResponse(
            topic.name, [list_offsets.ListOffsetsPartitionResponse(p.partition_index, TOPIC_DENIED) for p in topic.partitions]
        )
        for topic in denied
    ]
    return with_refusals(request, lambda response: response.topics, refused)


def offset_for_leader_epoch_(
    access: Access, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, version: int
) -> Outcome:
    """DESCRIBE on each topic, or CLUSTER_ACTION on the cluster."""
    if access.sees_on_cluster(AclOperation.CLUSTER_ACTION):
        return None
    request.topics, denied = access.split(AclOperation.DESCRIBE, TOPIC, request.topics, lambda topic: topic.topic)
    if not denied:
        return None
    ends = offset_for_leader_epoch.EpochEndOffset
    refused = [
        offset_for_leader_epoch.OffsetForLeaderTopicResult(
            topic.topic, [ends(TOPIC_DENIED, p.partition) for p in topic.partitions]
        )
        for topic in denied
    ]
    return with_refusals(request, lambda response: response.topics, refused)


def delete_records_(access: Access, request: delete_records.DeleteRecordsRequest, version: int) -> Outcome:
    """DELETE on each topic."""
    request.topics, denied = access.split(AclOperation.DELETE, TOPIC, request.topics, lambda topic: topic.name)
    if not denied:
        return None
    result = delete_records.DeleteRecordsPartitionResult
    refused = [
        delete_records.DeleteRecordsTopicResult(
            topic.name, [result(p.partition_index, NO_OFFSET, TOPIC_DENIED) for p in topic.partitions]
        )
        for topic in denied
    ]
    return with_refusals(request, lambda response: response.topics, refused)


def describe_producers_(access: Access, request: describe_producers.DescribeProducersRequest, version: int) -> Outcome:
    """READ on each topic with a legal name."""
    denied = [topic for topic in request.topics if is_legal(topic.name) and not access.may(AclOperation.READ, TOPIC, topic.name)]
    if not denied:
        return None
    refused_names = {topic.name for topic in denied}
    request.topics = [topic for topic in request.topics if topic.name not in refused_names]
    answer = partial(describe_producers.PartitionResponse, error_code=TOPIC_DENIED, error_message=MESSAGES[TOPIC_DENIED])
    refused = [
        describe_producers.TopicResponse(topic.name, [answer(index) for index in topic.partition_indexes]) for topic in denied
    ]
    return with_refusals(request, lambda response: response.topics, refused)


def metadata(access: Access, request: MetadataRequest, version: int) -> Outcome:
    """DESCRIBE on each topic that is named. CREATE on the cluster or on the topic, for one that would be created. Others are not
    shown to who may not DESCRIBE them."""
    topics = request.topics or ()
    if version < FIRST_BY_ID and any(topic.name is None or topic.topic_id != NO_UUID for topic in topics):
        return None  # an invalid request
    every_topic = request.topics is None or (version == 0 and not topics)
    refused = [] if every_topic else _without_denied(access, request)
    wants_operations = request.include_topic_authorized_operations or request.include_cluster_authorized_operations
    if not (every_topic or refused or wants_operations):
        return None

    async def complete(response: MetadataResponse) -> MetadataResponse:
        if every_topic:
            response.topics = [t for t in response.topics if access.sees(AclOperation.DESCRIBE, TOPIC, t.name or "")]
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name is not None:
                    topic.authorized_operations = access.operations(TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = access.operations_on_cluster()
        response.topics += refused
        return response

    return Filtered(request, complete)


def _without_denied(access: Access, request: MetadataRequest) -> list[MetadataTopic]:
    """Leaves the topics in the request that its client may be told of, and that may be created. Returns the other answers."""
    refused: list[MetadataTopic] = []
    by_id = any(topic.topic_id != NO_UUID for topic in request.topics or ())
    kept: list[RequestedTopic] = []
    for topic in dict.fromkeys(request.topics or ()):
        name = access.name_of(topic.topic_id) if by_id else topic.name or ""
        if name is None or (by_id and topic.topic_id == NO_UUID):
            kept.append(topic)
        elif not access.may(AclOperation.DESCRIBE, TOPIC, name):
            refused.append(MetadataTopic(TOPIC_DENIED, None if by_id else name, topic.topic_id))
        elif _would_create(access, request, name) and not _may_create(access, name):
            refused.append(MetadataTopic(TOPIC_DENIED, name, is_internal=name in INTERNAL_TOPICS))
        else:
            kept.append(topic)
    request.topics = kept
    return refused


def _would_create(access: Access, request: MetadataRequest, name: str) -> bool:
    if name in access.image.topics or not request.allow_auto_topic_creation:
        return False
    return effective_broker_bool(access.image, "auto.create.topics.enable")


def _may_create(access: Access, name: str) -> bool:
    return access.sees_on_cluster(AclOperation.CREATE) or access.may(AclOperation.CREATE, TOPIC, name)


def describe_topic_partitions(access: Access, request: DescribeTopicPartitionsRequest, version: int) -> Outcome:
    """DESCRIBE on each topic. In a request for all topics, others are not shown."""
    describes_all = not request.topics
    requested = list(access.image.topics) if describes_all else [topic.name for topic in request.topics]
    decide = access.sees if describes_all else access.may
    names: list[str] = []
    denied: list[str] = []
    for name in dict.fromkeys(requested):
        (names if decide(AclOperation.DESCRIBE, TOPIC, name) else denied).append(name)
    cursor = request.cursor
    if cursor is not None and describes_all and cursor.topic_name not in names and cursor.partition_index >= 0:
        names = [name for name in names if name >= cursor.topic_name]
        request.cursor = cursor = None
    elif cursor is not None:
        denied = [name for name in denied if name >= cursor.topic_name]
    refused = [] if describes_all else [DescribeTopicPartitionsResponseTopic(TOPIC_DENIED, name) for name in denied]
    if not names:
        return Refused(DescribeTopicPartitionsResponse(topics=refused))
    request.topics = [TopicRequest(name) for name in names]

    async def complete(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            topic.topic_authorized_operations = access.operations(TOPIC, topic.name or "")
        response.topics += refused
        return response

    return Filtered(request, complete)
