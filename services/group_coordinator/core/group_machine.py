"""The state machine of one shard's groups. Its parts share a journal, and each group belongs to one part.

A group is *classic*, of the *consumer* protocol (KIP-848), or *simple*: offsets alone, which Kafka calls classic too. A request
of either protocol goes to the part with its group, and may convert the group to the other protocol (`migration/mixed_groups.py`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
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
from libs.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.administration import group_deletions, group_descriptions
from services.group_coordinator.core.classic import group_decision as classic
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.consumer import group_decision as consumer
from services.group_coordinator.core.consumer.consumer_groups import ConsumerGroups
from services.group_coordinator.core.migration import expected_requests
from services.group_coordinator.core.migration.mixed_groups import MixedGroups
from services.group_coordinator.core.model.group_counts import Counted, GroupCounts
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER, SIMPLE, Kind
from services.group_coordinator.core.model.records import Logged, OffsetCommitted, OffsetPending, TransactionEnded
from services.group_coordinator.core.model.requests import RequestEvent, TransactionMarker
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets import committed_offsets
from services.group_coordinator.core.offsets.committed_offsets import Offsets
from services.group_coordinator.core.offsets.expiries import ONE_TOMBSTONE
from services.group_coordinator.core.record_formats import record_codec
from services.group_coordinator.core.simple.simple_groups import STATE, NoGroup, SimpleGroups

Decided: TypeAlias = Decision[Any, Any]


class GroupMachine:
    """A `decisions.Machine` for groups. Settings, configs of groups and topics are read at each decision."""

    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], GroupSettings],
        group_configs: Callable[[str], Mapping[str, str]],
        topics: Callable[[], TopicsView],
    ) -> None:
        def configs(name: str) -> Mapping[str, str]:
            return settings().within_bounds(group_configs(name))

        self.classic = ClassicGroups(journal, lambda: settings().classic, topics)
        self.consumer = ConsumerGroups(journal, lambda: settings().consumer, configs, topics)
        self.mixed = MixedGroups(journal, self.classic, self.consumer, settings, topics)
        self.offsets = Offsets(journal, settings, topics, self.kind_of, self.groups)
        self.deletions = group_deletions.Deletions(journal, self.offsets.table, self.offsets.pending, self.kind_of)
        self.counts = GroupCounts(journal)
        self._parts = (self.offsets, self.classic, self.consumer, self.mixed, self.deletions)
        self._simple_groups = SimpleGroups()
        self._no_group = NoGroup()

    # -- groups -------------------------------------------------------------------------------------------------------------

    def kind_of(self, name: str) -> Kind:
        if name in self.classic.groups:
            return self.classic
        if name in self.consumer.groups:
            return self.consumer
        return self._simple_groups if name in self.offsets else self._no_group

    def simple_groups(self) -> Iterator[str]:
        classic, consumer = self.classic.groups, self.consumer.groups
        return (name for name in self.offsets.groups() if name not in classic and name not in consumer)

    def groups(self) -> Iterator[str]:
        """The names of all groups."""
        yield from self.classic.groups
        yield from self.consumer.groups
        yield from self.simple_groups()

    def has(self, name: str) -> bool:
        """Whether there is a group of that name."""
        return self.kind_of(name) is not self._no_group

    def rebalances(self, name: str) -> bool:
        """Whether that group rebalances."""
        group = self.classic.groups.get(name) or self.consumer.groups.get(name)
        return group is not None and group.facts.rebalances_now

    def names(self) -> Sequence[list[str]]:
        """The names of all groups at this moment, some of them twice. It copies references alone: 10 ns for each."""
        table, pending = self.offsets.table, self.offsets.pending
        return [*self.classic.groups], [*self.consumer.groups], [*table], [*pending.groups()]

    # -- deciding -----------------------------------------------------------------------------------------------------------

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decided:
        if isinstance(event, Expired):
            return self._expired(event.key, now_ms)
        match event.request:
            case OffsetCommitRequest() as request:
                return self.offsets.decide_commit(event, request, now_ms)
            case HeartbeatRequest() as request:
                return self.mixed.decide_heartbeat(event, request, now_ms)
            case ConsumerGroupHeartbeatRequest() as request:
                return self.mixed.decide_consumer_heartbeat(event, request, now_ms)
            case OffsetFetchRequest() as request:
                return self.offsets.decide_fetch(event, request, now_ms)
            case JoinGroupRequest() as request:
                return self.mixed.decide_join(event, request, now_ms)
            case SyncGroupRequest() as request:
                return self.mixed.decide_sync(event, request, now_ms)
            case LeaveGroupRequest() as request:
                return self.mixed.decide_leave(event, request, now_ms)
            case TxnOffsetCommitRequest() as request:
                return self.offsets.decide_transactional_commit(request, now_ms)
            case TransactionMarker() as marker:
                return self.offsets.decide_marker(marker)
            case OffsetDeleteRequest() as request:
                return self.offsets.decide_deletion(event, request, now_ms)
            case DeleteGroupsRequest() as request:
                return self.deletions.decide(event, request)
            case DescribeGroupsRequest() as request:
                return group_descriptions.describe(self.kind_of, request, event.version)
            case ConsumerGroupDescribeRequest() as request:
                return group_descriptions.consumer_describe(self.kind_of, request, event.version)
            case ListGroupsRequest() as request:
                return self._list(request, event.names)
            case _:
                assert_never(event.request)

    def decide_smaller(self, event: RequestEvent | Expired, now_ms: int) -> Decided | None:
        """A decision for the same event that leaves a group in the consumer protocol, or removes one offset instead of many."""
        if isinstance(event, Expired):
            return self._expired_smaller(event.key, now_ms)
        match event.request:
            case ConsumerGroupHeartbeatRequest() as request:
                return self.mixed.decide_consumer_heartbeat(event, request, now_ms, downgrades=False)
            case JoinGroupRequest() as request:
                return self.mixed.decide_join(event, request, now_ms, downgrades=False)
            case LeaveGroupRequest() as request:
                return self.mixed.decide_leave(event, request, now_ms, downgrades=False)
            case DeleteGroupsRequest() as request:
                return self.deletions.decide(event, request, ONE_TOMBSTONE)
        return None

    def _list(self, request: ListGroupsRequest, names: Sequence[str] | None) -> Decided:
        states, kinds = request.states_filter, request.types_filter
        listed = self.classic.listed(states, kinds, names) + self.consumer.listed(states, kinds, names)
        simple = self.simple_groups() if names is None else [name for name in names if self.kind_of(name) is self._simple_groups]
        return group_descriptions.listed(listed + self._simple_groups.listed(simple, states, kinds))

    def _expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (classic.PART, *_):
                return self.classic.expired(key, now_ms)
            case (consumer.PART, *_):
                return self.mixed.expired_consumer(key, now_ms)
            case (expected_requests.PART, *_):
                return self.mixed.expired(key, now_ms)
            case (committed_offsets.PART, *_):
                return self.offsets.expired(key, now_ms)
            case (group_deletions.PART, *_):
                return self.deletions.expired(key)
        raise ValueError(f"no part has a timer {key!r}")

    def _expired_smaller(self, key: TimerKey, now_ms: int) -> Decided | None:
        match key:
            case (consumer.PART, *_):
                return self.mixed.expired_consumer(key, now_ms, downgrades=False)
            case (committed_offsets.PART, *_):
                return self.offsets.expired(key, now_ms, ONE_TOMBSTONE)
            case (group_deletions.PART, *_):
                return self.deletions.expired(key, ONE_TOMBSTONE)
        return None

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        for part in self._parts:
            yield from part.timers(now_ms)

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: Any) -> None:
        if type(record) is OffsetCommitted and record.group in self.offsets.table:  # the most frequent one changes no count
            self._apply(record)
            return
        names = self._groups_of(record)
        before = [self._counted(name) for name in names]
        self._apply(record)
        self.counts.change(before, map(self._counted, names))

    def _apply(self, record: Any) -> None:
        for part in self._parts:
            if part.replay(record):
                return
        raise ValueError(f"no part keeps {type(record).__name__}")

    def _groups_of(self, record: Any) -> Collection[str]:
        """The groups that a record may change."""
        if type(record) is TransactionEnded:
            return self.offsets.pending.groups_of(record.producer_id)
        name = record.committed.group if type(record) is OffsetPending else getattr(record, "group", None)
        return (name,) if name is not None else ()

    def _counted(self, name: str) -> Counted | None:
        if (classic_group := self.classic.groups.get(name)) is not None:
            return Counted(CLASSIC, classic_group.state, len(classic_group.members))
        if (consumer_group := self.consumer.groups.get(name)) is not None:
            return Counted(CONSUMER, consumer_group.state, len(consumer_group.members))
        return Counted(SIMPLE, STATE, 0) if name in self.offsets else None

    def encode(self, record: Any) -> KeyValue | None:
        return record_codec.encode(record)

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Logged | None:
        return record_codec.decode(key, value, transaction)
