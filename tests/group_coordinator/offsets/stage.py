"""A coordinator of one shard with groups of every kind, on a log in memory; topics; and clients that commit."""

from collections.abc import Sequence
from typing import Any

from libs.coordinator.core.tables import Journal
from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescribedGroup
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from libs.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from libs.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.requests import TransactionMarker
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from tests.group_coordinator.classic.stage import Stage
from tests.group_coordinator.one_shard import CoordinatorRequest

HOUR_MS = 3_600_000
CHECK_MS = 600_000
RETENTION_MS = 24 * HOUR_MS


def topic_id(name: str, life: int = 0) -> bytes:
    return f"{name}-{life}".encode().rjust(16, b"#")


def subscription(*topics: str) -> bytes:
    """As consumers write it, version 0."""
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + (-1).to_bytes(4, "big", signed=True)


def reads(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*topics)),)


class GroupStage(Stage):
    def __init__(self, *, retention_ms: int = RETENTION_MS, metadata_max: int = 20, partitions: int = 4) -> None:
        self.group_settings = GroupSettings(
            ClassicSettings(initial_delay_ms=0),
            offset_metadata_max=metadata_max,
            offsets_retention_ms=retention_ms,
            offsets_check_interval_ms=CHECK_MS,
        )
        self.topics = TopicsView.of(1, [TopicView(topic_id(name), name, partitions) for name in ("t", "u", "v")])
        super().__init__()

    def make(self, journal: Journal) -> Any:
        return GroupMachine(journal, lambda: self.group_settings, lambda name: {}, lambda: self.topics)

    @property
    def machine(self) -> GroupMachine:
        matches = self.shard.machine
        assert isinstance(matches, GroupMachine)
        return matches

    def put_topics(self, *topics: TopicView) -> None:
        named = {**self.topics.by_name, **{topic.name: topic for topic in topics}}
        self.topics = TopicsView.of(self.topics.version + 1, named.values())

    def drop_topic(self, name: str) -> None:
        self.topics = TopicsView.of(
            self.topics.version + 1, [topic for topic in self.topics.by_name.values() if topic.name != name]
        )

    # -- offsets ------------------------------------------------------------------------------------------------------------

    def ask_commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        name: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "",
        epoch: int = -1,
        retention_ms: int = -1,
    ) -> CoordinatorRequest:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            request = OffsetCommitRequestPartition(partition, offset, epoch, metadata)
            by_topic.setdefault(topic, []).append(request)
        if version >= 10:
            views = self.topics.by_name
            topics = [
                OffsetCommitRequestTopic(views[topic].topic_id if topic in views else topic_id(topic), "", request)
                for topic, request in by_topic.items()
            ]
        else:
            topics = [OffsetCommitRequestTopic(name=topic, partitions=request) for topic, request in by_topic.items()]
        return self.ask(OffsetCommitRequest(name, generation, member_id, instance, retention_ms, topics), version)

    def commit(self, offsets: dict[tuple[str, int], int], **how: Any) -> dict[tuple[str, int], int]:
        """The error of each partition."""
        pending = self.ask_commit(offsets, **how)
        assert pending.answered
        assert not pending.failure
        named = {topic.topic_id: topic.name for topic in self.topics.by_name.values()}
        return {
            (topic.name or named.get(topic.topic_id, topic.topic_id.decode()), item.partition_index): item.error_code
            for topic in pending.reply.topics
            for item in topic.partitions
        }

    def ask_transactional_commit(
        self,
        offsets: dict[tuple[str, int], int],
        producer: tuple[int, int] = (7, 0),
        *,
        name: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
    ) -> CoordinatorRequest:
        """`producer`: id and epoch. The coordinator of its transaction has said that it may."""
        topics = [
            TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset, -1, metadata)])
            for (topic, partition), offset in offsets.items()
        ]
        return self.ask(TxnOffsetCommitRequest("x", name, *producer, generation, member_id, instance, topics), 3)

    def commit_in_transaction(
        self, offsets: dict[tuple[str, int], int], producer: tuple[int, int] = (7, 0), **how: Any
    ) -> dict[tuple[str, int], int]:
        """The error of each partition."""
        pending = self.ask_transactional_commit(offsets, producer, **how)
        assert pending.answered
        assert not pending.failure
        return {
            (topic.name, item.partition_index): item.error_code for topic in pending.reply.topics for item in topic.partitions
        }

    def end_transaction(self, producer: tuple[int, int] = (7, 0), *, commits: bool = True, raises_epoch: bool = False) -> int:
        """The error of a marker."""
        return self.ask(TransactionMarker(*producer, commits, raises_epoch, 0), 0).error

    def fetch(self, name: str = "g", *, version: int = 9, stable: bool = False) -> dict[tuple[str, int], int]:
        """All that the group committed. A negative number is that of an error."""
        if version >= 8:
            pending = self.ask(OffsetFetchRequest([OffsetFetchRequestGroup(name, topics=None)], require_stable=stable), version)
            (group,) = pending.reply.groups
            assert group.error_code == 0
            topics = group.topics
        else:
            pending = self.ask(OffsetFetchRequest(group_id=name, topics=None, require_stable=stable), version)
            assert pending.error == 0
            topics = pending.reply.topics
        return {
            (topic.name, item.partition_index): -item.error_code or item.committed_offset
            for topic in topics
            for item in topic.partitions
        }

    def fetch_named(self, request: dict[str, Sequence[int]], *, name: str = "g", version: int = 9) -> dict[tuple[str, int], Any]:
        """(offset, leader epoch, metadata, error) of each partition. Topics by name."""
        if version >= 8:
            batch = [OffsetFetchRequestTopics(topic_id(topic), topic, list(which)) for topic, which in request.items()]
            pending = self.ask(OffsetFetchRequest([OffsetFetchRequestGroup(name, topics=batch)]), version)
            (group,) = pending.reply.groups
            assert group.error_code == 0
            topics = group.topics
        else:
            single = [OffsetFetchRequestTopic(topic, list(which)) for topic, which in request.items()]
            topics = self.ask(OffsetFetchRequest(group_id=name, topics=single), version).reply.topics
        return {
            (topic.name, item.partition_index): (
                item.committed_offset,
                item.committed_leader_epoch,
                item.metadata,
                item.error_code,
            )
            for topic in topics
            for item in topic.partitions
        }

    def delete_offsets(self, request: dict[str, Sequence[int]], *, name: str = "g") -> Any:
        """The error of the request, or of each partition."""
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(item) for item in which])
            for topic, which in request.items()
        ]
        reply = self.ask(OffsetDeleteRequest(name, topics), 0).reply
        if reply.error_code:
            return reply.error_code
        return {(topic.name, item.partition_index): item.error_code for topic in reply.topics for item in topic.partitions}

    # -- operators ----------------------------------------------------------------------------------------------------------

    def delete_groups(self, *names: str) -> dict[str, int]:
        reply = self.ask(DeleteGroupsRequest(list(names)), 2).reply
        return {result.group_id: result.error_code for result in reply.results}

    def describe(self, name: str = "g", *, version: int = 6, operations: bool = False) -> DescribedGroup:
        (matches,) = self.ask(DescribeGroupsRequest([name], operations), version).reply.groups
        assert isinstance(matches, DescribedGroup)
        return matches

    def describe_consumer(self, name: str = "g") -> ConsumerDescribedGroup:
        (matches,) = self.ask(ConsumerGroupDescribeRequest([name]), 1).reply.groups
        assert isinstance(matches, ConsumerDescribedGroup)
        return matches

    def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> dict[str, tuple[str, str, str]]:
        reply = self.ask(ListGroupsRequest([*states], [*types]), 5).reply
        assert reply.error_code == 0
        return {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in reply.groups}

    def member(self, *topics: str, name: str = "g", kind: str = PROTOCOL_TYPE) -> tuple[str, int]:
        """The only one of a stable group."""
        ids, generation = self.stable(protocols=reads(*topics), name=name, kind=kind)
        return ids[0], generation
