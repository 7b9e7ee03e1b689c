"""The group coordinator of one shard: its parts share a journal, and each group belongs to one of them.

A group is *classic*, of the *consumer* protocol (KIP-848), or *simple*: offsets alone, which Kafka calls classic too. A group
that nobody is in becomes one of whoever comes. One with members keeps its protocol.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, assert_never

from libs.runtime.shards.decisions import Decision, Expired, KeyValue
from libs.runtime.shards.tables import Journal
from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_commit import OffsetCommitRequest
from libs.wire.messages.offset_delete import OffsetDeleteRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest
from libs.wire.messages.sync_group import SyncGroupRequest
from services.group_coordinator.core import group_deletions, groups_admin, record_codec
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.classic import draft as classic
from services.group_coordinator.core.classic.part import Classic
from services.group_coordinator.core.consumer import draft as consumer
from services.group_coordinator.core.consumer.part import Consumer
from services.group_coordinator.core.kinds.classic import ClassicGroups
from services.group_coordinator.core.kinds.consumer import ConsumerGroups
from services.group_coordinator.core.kinds.kind import Kind, NoGroup, SimpleGroups
from services.group_coordinator.core.offsets import part as offsets
from services.group_coordinator.core.offsets.part import Offsets
from services.group_coordinator.core.records import ClassicGroupRemoved, Record
from services.group_coordinator.core.settings import GroupSettings
from services.group_coordinator.core.topics_view import TopicsView

Decided: TypeAlias = Decision[Any, Any]


class GroupMachine:
    """Settings, configs of groups and topics are asked for at each decision. A `decisions.Machine`."""

    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], GroupSettings],
        group_configs: Callable[[str], Mapping[str, str]],
        topics: Callable[[], TopicsView],
    ) -> None:
        def configs(name: str) -> Mapping[str, str]:
            return settings().within_bounds(group_configs(name))

        self.classic = Classic(journal, lambda: settings().classic)
        self.consumer = Consumer(journal, lambda: settings().consumer, configs, topics)
        self.offsets = Offsets(journal, settings, topics, self.kind_of, self.groups)
        self._deletions = group_deletions.Deletions(journal, self.offsets.table, self.kind_of)
        self._parts = (self.offsets, self.classic, self.consumer, self._deletions)
        self._classic_groups = ClassicGroups(self.classic)
        self._consumer_groups = ConsumerGroups(self.consumer)
        self._simple_groups = SimpleGroups()
        self._no_group = NoGroup()

    # -- groups -------------------------------------------------------------------------------------------------------------

    def kind_of(self, name: str) -> Kind:
        if name in self.classic.groups:
            return self._classic_groups
        if name in self.consumer.groups:
            return self._consumer_groups
        return self._simple_groups if name in self.offsets.table else self._no_group

    def simple_groups(self) -> Iterator[str]:
        classic, consumer = self.classic.groups, self.consumer.groups
        return (name for name in self.offsets.table if name not in classic and name not in consumer)

    def groups(self) -> Iterator[str]:
        """All there are."""
        yield from self.classic.groups
        yield from self.consumer.groups
        yield from self.simple_groups()

    # -- deciding -----------------------------------------------------------------------------------------------------------

    def decide(self, event: Asked | Expired, now_ms: int) -> Decided:
        if isinstance(event, Expired):
            return self._expired(event.key, now_ms)
        match event.request:
            case OffsetCommitRequest() as request:
                return self.offsets.decide_commit(event, request, now_ms)
            case HeartbeatRequest() as request:
                return self.classic.decide_heartbeat(event, request, now_ms)
            case ConsumerGroupHeartbeatRequest() as request:
                return self._decide_consumer_heartbeat(event, request, now_ms)
            case OffsetFetchRequest() as request:
                return self.offsets.decide_fetch(event, request, now_ms)
            case JoinGroupRequest() as request:
                return self._decide_join(event, request, now_ms)
            case SyncGroupRequest() as request:
                return self.classic.decide_sync(event, request, now_ms)
            case LeaveGroupRequest() as request:
                return self.classic.decide_leave(event, request, now_ms)
            case OffsetDeleteRequest() as request:
                return self.offsets.decide_deletion(event, request, now_ms)
            case DeleteGroupsRequest() as request:
                return self._deletions.decide(event, request)
            case DescribeGroupsRequest() as request:
                return groups_admin.describe(self.kind_of, request, event.version)
            case ConsumerGroupDescribeRequest() as request:
                return groups_admin.consumer_describe(self.kind_of, request, event.version)
            case ListGroupsRequest() as request:
                return self._list(request)
            case _:
                assert_never(event.request)

    def _decide_consumer_heartbeat(self, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        name = request.group_id
        decision = self.consumer.decide_heartbeat(asked, request, now_ms)
        error = decision.reply.error_code if decision.reply is not None else ErrorCode.NONE
        if name not in self.classic.groups or error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return decision
        if not error and self.classic.removal_error(name) is ErrorCode.NONE:
            return replace(decision, records=[ClassicGroupRemoved(name), *decision.records])
        message = f"Group {name} is not a consumer group."
        return Decision(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message))

    def _decide_join(self, asked: Asked, request: JoinGroupRequest, now_ms: int) -> Decided:
        name = request.group_id
        if name not in self.consumer.groups:
            return self.classic.decide_join(asked, request, now_ms)
        if self.consumer.removal_error(name):
            return Decision(classic.join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id, asked.version))
        decision = self.classic.decide_join(asked, request, now_ms)
        if not decision.records:
            return decision
        return replace(decision, records=[*self.consumer.removal(name), *decision.records])

    def _list(self, request: ListGroupsRequest) -> Decided:
        found = self.classic.listed(request.states_filter, request.types_filter)
        found += self.consumer.listed(request.states_filter, request.types_filter)
        return groups_admin.listed(found + groups_admin.list_simple(self.simple_groups(), request))

    def _expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (classic.PART, *_):
                return self.classic.expired(key, now_ms)
            case (consumer.PART, *_):
                return self.consumer.expired(key, now_ms)
            case (offsets.PART, *_):
                return self.offsets.expired(key, now_ms)
            case (group_deletions.PART, *_):
                return self._deletions.expired(key)
        raise ValueError(f"nobody here has a timer {key!r}")

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        yield from self.classic.timers(now_ms)
        yield from self.consumer.timers(now_ms)
        yield from self.offsets.timers(now_ms)
        yield from self._deletions.timers(now_ms)

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: Any) -> None:
        for part in self._parts:
            if part.replay(record):
                return
        raise ValueError(f"nobody here keeps {type(record).__name__}")

    def encode(self, record: Any) -> KeyValue | None:
        return record_codec.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return record_codec.decode(key, value)
