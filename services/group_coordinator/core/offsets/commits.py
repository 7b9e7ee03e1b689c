"""OffsetCommit, versions 2 to 10.

Version 5 took the retention time out of requests, 6 added leader epochs, 7 instance ids (KIP-345), 9 members of the consumer
protocol (KIP-848), 10 names topics by their ids (KIP-848).

Refused partition by partition: topics and partitions that are not there, and metadata that is too long. Offsets are kept as they
come, negative ones as well, as in Kafka: it is the client that means something by them.
"""

from typing import Any

from libs.runtime.shards.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from libs.wire.primitives import NO_UUID
from services.group_coordinator.core.happened import fenced
from services.group_coordinator.core.kinds.kind import Kind
from services.group_coordinator.core.records import OffsetCommitted
from services.group_coordinator.core.topics_view import TopicsView, TopicView

NAMED_BY_ID_FROM = 10
NO_RETENTION = -1
NEVER_MS = 2**63 - 1
"""The last moment that the log can name: who keeps an offset for as long as it can be said keeps it for ever."""

Found = tuple[OffsetCommitRequestTopic, TopicView, list[OffsetCommitRequestPartition]]


def decide_commit(
    kind: Kind, request: OffsetCommitRequest, version: int, topics: TopicsView, metadata_max: int, now_ms: int
) -> Decision[OffsetCommitResponse, Any]:
    """`kind`: that of the group."""
    answers = Answers()
    found = _find(request, version, topics, answers)
    if not found:
        return Decision(OffsetCommitResponse(topics=answers.topics))
    name = request.group_id
    error = kind.commit_error(name, request, version)
    records: list[OffsetCommitted] = []
    expire_ms = -1 if request.retention_time_ms == NO_RETENTION else min(now_ms + request.retention_time_ms, NEVER_MS)
    for asked, topic, partitions in found:
        topic_id = topic.topic_id if expire_ms == -1 else NO_UUID  # the format has room for one of them
        told: list[OffsetCommitResponsePartition] = []
        for one in partitions:
            index, metadata = one.partition_index, one.committed_metadata or ""
            if error:
                told.append(OffsetCommitResponsePartition(index, error))
            elif is_too_long(metadata, metadata_max):
                told.append(OffsetCommitResponsePartition(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            else:
                told.append(OffsetCommitResponsePartition(index))
                epoch = one.committed_leader_epoch
                records.append(
                    OffsetCommitted(name, topic.name, index, one.committed_offset, epoch, metadata, now_ms, expire_ms, topic_id)
                )
        answers.add(asked, told)
    if error:
        happened = fenced(name, request.member_id, request.group_instance_id, error)
        return Decision(OffsetCommitResponse(topics=answers.topics), happened=happened)
    return Decision(OffsetCommitResponse(topics=answers.topics), records, kind.heard_of(name, request, now_ms))


def is_too_long(metadata: str, limit: int) -> bool:
    """Kafka counts what Java calls characters: two for what lies beyond the basic plane."""
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-le", "surrogatepass")) > limit * 2


class Answers:
    """As Kafka orders them: what was refused at once, then the rest. Only where something was, each topic stands there once."""

    def __init__(self) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self._known: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}

    def refuse(self, asked: OffsetCommitRequestTopic, index: int, error: ErrorCode) -> None:
        topic = self._known.get((asked.topic_id, asked.name))
        if topic is None:
            topic = self._new(asked, [])
        topic.partitions.append(OffsetCommitResponsePartition(index, error))

    def add(self, asked: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]) -> None:
        topic = self._known.get((asked.topic_id, asked.name)) if self._known else None
        if topic is not None:
            topic.partitions += partitions
        elif self._known:
            self._new(asked, partitions)
        else:
            self.topics.append(OffsetCommitResponseTopic(asked.topic_id, asked.name, partitions))

    def _new(self, asked: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]) -> OffsetCommitResponseTopic:
        topic = self._known[asked.topic_id, asked.name] = OffsetCommitResponseTopic(asked.topic_id, asked.name, partitions)
        self.topics.append(topic)
        return topic


def _find(request: OffsetCommitRequest, version: int, topics: TopicsView, answers: Answers) -> list[Found]:
    """Topics that are there, with those of the partitions that are."""
    by_id = version >= NAMED_BY_ID_FROM
    found: list[Found] = []
    for asked in request.topics:
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for one in asked.partitions:
                answers.refuse(asked, one.partition_index, error)
            continue
        there = []
        for one in asked.partitions:
            if 0 <= one.partition_index < topic.partitions:
                there.append(one)
            else:
                answers.refuse(asked, one.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if there:
            found.append((asked, topic, there))
    return found
