"""OffsetCommit, versions 2 to 10.

Version 5 removed the retention time. Version 6 added leader epochs, 7 instance ids (KIP-345), 9 members of the consumer protocol
(KIP-848). Version 10 names topics by their ids (KIP-848).

Unknown topics and partitions, and metadata that is too long, are refused partition by partition. Offsets are stored as they are,
even negative ones, as in Kafka: only the client interprets them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from libs.coordinator.core.decisions import Decision
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
from services.group_coordinator.core.model.group_events import fenced
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView

NAMED_BY_ID_FROM = 10
NO_RETENTION = -1
NEVER_MS = 2**63 - 1
"""The last time that the log can name. A retention beyond it is for ever."""

KnownTopic = tuple[OffsetCommitRequestTopic, TopicView, list[OffsetCommitRequestPartition]]


def decide_commit(
    kind: Kind, request: OffsetCommitRequest, version: int, topics: TopicsView, metadata_max: int, now_ms: int
) -> Decision[OffsetCommitResponse, Any]:
    """The decision about one request. `kind` is the group's kind."""
    name = request.group_id
    committed = commit(request, version, topics, metadata_max, now_ms, lambda: kind.commit_error(name, request, version))
    response = OffsetCommitResponse(topics=committed.answers)
    if committed.error is None:
        return Decision(response)
    if committed.error:
        return Decision(response, events=fenced(name, request.member_id, request.group_instance_id, committed.error))
    return Decision(response, committed.records, kind.commit_timers(name, request, now_ms))


class Committed(NamedTuple):
    error: ErrorCode | None
    """What `find_error` found. None: it was not asked, since the request names no known partition."""
    answers: list[OffsetCommitResponseTopic]
    records: list[OffsetCommitted]


def commit(
    request: OffsetCommitRequest,
    version: int,
    topics: TopicsView,
    metadata_max: int,
    now_ms: int,
    find_error: Callable[[], ErrorCode],
) -> Committed:
    """The answers and the offsets. `find_error` says what is wrong with the commit as a whole."""
    answers = Answers()
    known_topics = _find(request, version, topics, answers)
    if not known_topics:
        return Committed(None, answers.topics, [])
    name = request.group_id
    error = find_error()
    records: list[OffsetCommitted] = []
    expire_ms = -1 if request.retention_time_ms == NO_RETENTION else min(now_ms + request.retention_time_ms, NEVER_MS)
    for requested, topic, partitions in known_topics:
        topic_id = topic.topic_id if expire_ms == -1 else NO_UUID  # the format has room for only one of them
        responses: list[OffsetCommitResponsePartition] = []
        for partition in partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            if error:
                responses.append(OffsetCommitResponsePartition(index, error))
            elif is_too_long(metadata, metadata_max):
                responses.append(OffsetCommitResponsePartition(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            else:
                responses.append(OffsetCommitResponsePartition(index))
                epoch = partition.committed_leader_epoch
                records.append(
                    OffsetCommitted(
                        name, topic.name, index, partition.committed_offset, epoch, metadata, now_ms, expire_ms, topic_id
                    )
                )
        answers.add(requested, responses)
    return Committed(error, answers.topics, records)


def is_too_long(metadata: str, limit: int) -> bool:
    """Whether metadata is too long. Kafka counts Java characters, two for a character beyond the basic plane."""
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-le", "surrogatepass")) > limit * 2


class Answers:
    """The partitions of an answer in Kafka's order: first those refused at once, then the others. A topic occurs once if any of
    its partitions was refused at once."""

    def __init__(self) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self._known: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}

    def refuse(self, requested: OffsetCommitRequestTopic, indexes: Sequence[int], error: ErrorCode) -> None:
        """As in Kafka, a topic that does not exist is answered even if no partition of it was named."""
        topic = self._known.get((requested.topic_id, requested.name))
        if topic is None:
            topic = self._new(requested, [])
        topic.partitions += [OffsetCommitResponsePartition(index, error) for index in indexes]

    def add(self, requested: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]) -> None:
        topic = self._known.get((requested.topic_id, requested.name)) if self._known else None
        if topic is not None:
            topic.partitions += partitions
        elif self._known:
            self._new(requested, partitions)
        else:
            self.topics.append(OffsetCommitResponseTopic(requested.topic_id, requested.name, partitions))

    def _new(
        self, requested: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]
    ) -> OffsetCommitResponseTopic:
        topic = self._known[requested.topic_id, requested.name] = OffsetCommitResponseTopic(
            requested.topic_id, requested.name, partitions
        )
        self.topics.append(topic)
        return topic


def _find(request: OffsetCommitRequest, version: int, topics: TopicsView, answers: Answers) -> list[KnownTopic]:
    """The existing topics, each with its existing partitions. Others are refused."""
    by_id = version >= NAMED_BY_ID_FROM
    known_topics: list[KnownTopic] = []
    for requested in request.topics:
        topic = topics.by_id.get(requested.topic_id) if by_id else topics.by_name.get(requested.name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.refuse(requested, [partition.partition_index for partition in requested.partitions], error)
            continue
        there = []
        for partition in requested.partitions:
            if 0 <= partition.partition_index < topic.partitions:
                there.append(partition)
            else:
                answers.refuse(requested, [partition.partition_index], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if there:
            known_topics.append((requested, topic, there))
    return known_topics
