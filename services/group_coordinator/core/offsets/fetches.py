"""OffsetFetch, versions 1 to 10. The answer is never older than the request.

Version 2 allowed null for all topics. Version 3 added a throttle time, 5 leader epochs, 7 `require_stable` (KIP-447), 8 several
groups (KIP-709). Version 9 added members of the consumer protocol (KIP-848), and 10 names topics by their ids.

A missing group has committed nothing, which is no error. `require_stable` asks for errors on offsets of open transactions.
"""

from collections.abc import Iterable
from typing import Any

from libs.coordinator.core.decisions import Decision
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
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets.offset_table import OffsetTable, is_gone
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

BATCHED_FROM = 8
NAMED_BY_ID_FROM = 10
NOTHING = -1


class Reader:
    def __init__(self, table: OffsetTable, topics: TopicsView, version: int, pending: PendingOffsets | None) -> None:
        """`pending`: the offsets that make their partitions unstable (KIP-447). None: the client takes what is committed."""
        self._table = table
        self._pending = pending
        self._topics = topics
        self._by_id = version >= NAMED_BY_ID_FROM

    def group(self, kind: Kind, requested: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        error = kind.fetch_error(requested.group_id, requested.member_id, requested.member_epoch)
        if error:
            return OffsetFetchResponseGroup(requested.group_id, [], error)
        if requested.topics is None:
            return OffsetFetchResponseGroup(requested.group_id, list(self._all(requested.group_id)))
        known: list[OffsetFetchResponseTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for topic in requested.topics:
            if not self._by_id:
                known.append(self._named(requested.group_id, topic, topic.name))
            elif (view := self._topics.by_id.get(topic.topic_id)) is not None:
                known.append(self._named(requested.group_id, topic, view.name))
            else:
                unknown.append(_unknown(topic))
        return OffsetFetchResponseGroup(requested.group_id, known + unknown)

    def _named(self, group: str, requested: OffsetFetchRequestTopics, name: str) -> OffsetFetchResponseTopics:
        get = self._table.get
        partitions = [
            self._partition_response(group, name, index, get(group, name, index)) for index in requested.partition_indexes
        ]
        return OffsetFetchResponseTopics(requested.topic_id, requested.name, partitions)

    def _all(self, group: str) -> Iterable[OffsetFetchResponseTopics]:
        by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for committed in self._table.of(group):
            if not is_gone(committed, self._topics):
                response = self._partition_response(group, committed.topic, committed.partition, committed)
                by_topic.setdefault(committed.topic, []).append(response)
        for name, partitions in by_topic.items():
            view = self._topics.by_name.get(name)
            if view is not None:
                yield OffsetFetchResponseTopics(view.topic_id, name, partitions)
            elif not self._by_id:  # a topic without a name cannot be answered by id
                yield OffsetFetchResponseTopics(name=name, partitions=partitions)

    def _partition_response(
        self, group: str, topic: str, index: int, committed: OffsetCommitted | None
    ) -> OffsetFetchResponsePartitions:
        if self._pending is not None and self._pending.is_pending(group, topic, index):
            return OffsetFetchResponsePartitions(index, NOTHING, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if committed is None or is_gone(committed, self._topics):
            return OffsetFetchResponsePartitions(index, NOTHING, -1, "")
        return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)


def _unknown(requested: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    partitions = [OffsetFetchResponsePartitions(index, NOTHING, -1, "", error) for index in requested.partition_indexes]
    return OffsetFetchResponseTopics(requested.topic_id, requested.name, partitions)


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
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.metadata,
                    partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in groups[0].topics
    ]
    return Decision(OffsetFetchResponse(topics=topics, error_code=groups[0].error_code), current=True)
