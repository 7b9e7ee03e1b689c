"""OffsetFetch, versions 1 to 10.

Version 2 took null for all topics, 3 a throttle time, 5 leader epochs, 7 `require_stable` (KIP-447), 8 several groups (KIP-709),
9 members of the consumer protocol (KIP-848), 10 names topics by their ids. The answer is never older than the question.

A group that is not there has committed nothing, which is no error. `require_stable` asks to be told of offsets that a transaction
has not decided about: none can be, because no transaction commits offsets yet.
"""

from collections.abc import Iterable
from typing import Any

from libs.runtime.shards.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from services.group_coordinator.core.kinds.kind import Kind
from services.group_coordinator.core.offsets.table import OffsetTable, is_gone
from services.group_coordinator.core.records import OffsetCommitted
from services.group_coordinator.core.topics_view import TopicsView

BATCHED_FROM = 8
NAMED_BY_ID_FROM = 10
NOTHING = -1


class Reader:
    def __init__(self, table: OffsetTable, topics: TopicsView, version: int) -> None:
        self._table = table
        self._topics = topics
        self._by_id = version >= NAMED_BY_ID_FROM

    def group(self, kind: Kind, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        error = kind.fetch_error(asked.group_id, asked.member_id, asked.member_epoch)
        if error:
            return OffsetFetchResponseGroup(asked.group_id, [], error)
        if asked.topics is None:
            return OffsetFetchResponseGroup(asked.group_id, list(self._all(asked.group_id)))
        found: list[OffsetFetchResponseTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for topic in asked.topics:
            if not self._by_id:
                found.append(self._named(asked.group_id, topic, topic.name))
            elif (view := self._topics.by_id.get(topic.topic_id)) is not None:
                found.append(self._named(asked.group_id, topic, view.name))
            else:
                unknown.append(_unknown(topic))
        return OffsetFetchResponseGroup(asked.group_id, found + unknown)

    def _named(self, group: str, asked: OffsetFetchRequestTopics, name: str) -> OffsetFetchResponseTopics:
        get = self._table.get
        told = [self._told(index, get(group, name, index)) for index in asked.partition_indexes]
        return OffsetFetchResponseTopics(asked.topic_id, asked.name, told)

    def _all(self, group: str) -> Iterable[OffsetFetchResponseTopics]:
        by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for committed in self._table.of(group):
            if not is_gone(committed, self._topics):
                by_topic.setdefault(committed.topic, []).append(self._told(committed.partition, committed))
        for name, told in by_topic.items():
            view = self._topics.by_name.get(name)
            if view is not None:
                yield OffsetFetchResponseTopics(view.topic_id, name, told)
            elif not self._by_id:  # else there is no way to say which
                yield OffsetFetchResponseTopics(name=name, partitions=told)

    def _told(self, index: int, committed: OffsetCommitted | None) -> OffsetFetchResponsePartitions:
        if committed is None or is_gone(committed, self._topics):
            return OffsetFetchResponsePartitions(index, NOTHING, -1, "")
        return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)


def _unknown(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    told = [OffsetFetchResponsePartitions(index, NOTHING, -1, "", error) for index in asked.partition_indexes]
    return OffsetFetchResponseTopics(asked.topic_id, asked.name, told)


def groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= BATCHED_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(request.group_id, None, -1, topics)]


def decided(groups: list[OffsetFetchResponseGroup], version: int) -> Decision[OffsetFetchResponse, Any]:
    if version >= BATCHED_FROM:
        return Decision(OffsetFetchResponse(groups=groups), current=True)
    topics = [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(
                    one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code
                )
                for one in topic.partitions
            ],
        )
        for topic in groups[0].topics
    ]
    return Decision(OffsetFetchResponse(topics=topics, error_code=groups[0].error_code), current=True)
