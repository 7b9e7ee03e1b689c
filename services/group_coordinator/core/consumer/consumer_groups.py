"""The consumer protocol (KIP-848) as a part of the group coordinator."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from libs.coordinator.core.decisions import Decision
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import DescribedGroup
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.describe_groups import DescribedGroup as DescribedAsClassic
from libs.wire.messages.list_groups import ListedGroup
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.consumer import changes, commits, expiries, heartbeats, leaves, subscriptions, views
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import (
    Decided,
    GroupDecision,
    Refused,
    revocation_key,
    session_key,
    session_ms,
)
from services.group_coordinator.core.consumer.member import JOIN_GROUP_MEMBER_EPOCH, Member
from services.group_coordinator.core.consumer.topic_hashes import TopicHashes
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings, heartbeat_interval_ms, session_timeout_ms
from services.group_coordinator.core.model.group_kind import CONSUMER, SINCE_COMMIT, list_where, not_a_classic_group
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView

_DISABLED = Refused(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is disabled.")


class ConsumerGroups:
    """All consumer groups of a shard: a `Kind`."""

    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], ConsumerSettings],
        group_configs: Callable[[str], Mapping[str, str]],
        topics: Callable[[], TopicsView],
    ) -> None:
        """`group_configs` returns the configs that were set for a group. All three callables are called at each decision."""
        self._journal = journal
        self._settings = settings
        self._configs = group_configs
        self._topics = topics
        self._hashes = TopicHashes()
        self.groups: Table[str, Group] = Table(journal)

    # -- requests -----------------------------------------------------------------------------------------------------------

    def decide_heartbeat(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        """The answer to a heartbeat. It is the most frequent request, so nothing is copied if nothing is new."""
        settings = self._settings()
        name, member_id = request.group_id, request.member_id
        refused = self.refusal(event, request)
        if refused is not None:
            return refused.decided(request)
        group = self.groups.get(name)
        if group is None and request.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
            kind = "Group" if request.member_epoch < JOIN_GROUP_MEMBER_EPOCH else "Consumer group"
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {quoted(name)} not found.").decided(request)
        if request.member_epoch < JOIN_GROUP_MEMBER_EPOCH:
            return leaves.decide_leave(self.group_decision(name, now_ms), request)
        member = group.members.get(member_id) if group is not None else None
        if (
            group is not None
            and member is not None
            and heartbeats.is_idle(group, member, event, request)
            and subscriptions.is_current(group, self._topics(), now_ms, settings)
        ):
            configs = self._configs(name)
            reply = heartbeats.replied(request, member, heartbeat_interval_ms(settings, configs), with_assignment=False)
            return Decision(reply, timers={session_key(name, member_id): now_ms + session_timeout_ms(settings, configs)})
        return heartbeats.decide_heartbeat(self.group_decision(name, now_ms), event, request)

    def refusal(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> Refused | None:
        """The refusal of a request that no group could accept, or None."""
        settings = self._settings()
        return heartbeats.invalid(request, event.version, settings) if settings.enabled else _DISABLED

    def session_timers(self, name: str, member: Member, now_ms: int) -> dict[TimerKey, int | None]:
        """The session timer of a member of an existing group."""
        return {session_key(name, member.member_id): now_ms + self.session_ms(name, member)}

    def session_ms(self, name: str, member: Member) -> int:
        """The session timeout of a member of the group `name`."""
        return session_ms(member, self._settings(), self._configs(name))

    # -- as a kind of groups ------------------------------------------------------------------------------------------------

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """The error of OffsetCommit, for all its partitions. As in Kafka, the instance id does not count."""
        return commits.commit_error(self.groups[name], request.member_id, request.generation_id_or_member_epoch, version)

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return commits.transactional_commit_error(self.groups[name], member_id, instance_id, generation)

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Mapping[TimerKey, int | None]:
        """No timers: only heartbeats extend a session."""
        return {}

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return commits.fetch_error(self.groups[name], member_id, epoch)

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.groups[name].members else ErrorCode.NONE

    def subscription(self, name: str) -> frozenset[str]:
        """Subscribed topics, also those that match regular expressions."""
        return frozenset(self.groups[name].subscriptions)

    def expiry_base_ms(self, name: str) -> int | None:
        return SINCE_COMMIT

    def describe_as_classic_group(self, name: str, version: int) -> DescribedAsClassic:
        return not_a_classic_group(name, f"Group {quoted(name)} is not a classic group.", version)

    def describe_as_consumer_group(self, name: str, version: int) -> DescribedGroup:
        return views.describe(self.groups[name], self._settings(), self._topics())

    def listed(self, states: list[str], kinds: list[str], names: Iterable[str] | None = None) -> list[ListedGroup]:
        """Groups that pass the filters of ListGroups. `names`: of these alone."""
        groups = self.groups
        chosen = groups.values() if names is None else [groups[name] for name in names if name in groups]
        return list_where(CONSUMER, chosen, views.listed, states, kinds)

    def tombstones(self, name: str, group: Group | None = None) -> list[records.Removed]:
        """Tombstones for all records of an existing group, in Kafka's order. `group`: the group at that moment, if it differs."""
        group = group or self.groups[name]
        members = sorted(group.members)
        return [
            *(records.CurrentAssignmentRemoved(name, member_id) for member_id in members),
            *(records.TargetAssignmentRemoved(name, member_id) for member_id in sorted({*members, *group.targets})),
            records.TargetEpochRemoved(name),
            *(records.ConsumerMemberRemoved(name, member_id) for member_id in members),
            *(records.RegularExpressionRemoved(name, regex) for regex in sorted(group.regexes)),
            records.ConsumerTopicsRemoved(name),
            records.ConsumerGroupRemoved(name),
        ]

    def group_decision(self, name: str, now_ms: int) -> GroupDecision:
        """The decision in the making, about an existing group or a new one."""
        group = self.groups.get(name)
        scratch = group.scratch() if group is not None else Group.empty(Journal(), name)
        return GroupDecision(scratch, now_ms, self._settings(), self._configs(name), self._topics(), self._hashes)

    # -- timers -------------------------------------------------------------------------------------------------------------

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, "session", str(name), str(member_id)) if name in self.groups:
                return expiries.on_session_timeout(self.group_decision(name, now_ms), member_id)
            case (_, "revocation", str(name), str(member_id)) if name in self.groups:
                return expiries.on_rebalance_timeout(self.group_decision(name, now_ms), member_id)
        return Decision()

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        """The timers after a load. Every member has its whole session again."""
        settings = self._settings()
        for name, group in self.groups.items():
            configs = self._configs(name)
            for member in group.members.values():
                yield session_key(name, member.member_id), now_ms + session_ms(member, settings, configs)
                if member.state is records.MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    yield revocation_key(name, member.member_id), now_ms + member.rebalance_timeout_ms

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """Applies `record`; False if it is not about a consumer group."""
        if isinstance(record, records.ConsumerGroupRemoved):
            self.groups.pop(record.group, None)
            return True
        if isinstance(record, _BEGINS):
            group = self.groups.get(record.group)
            if group is None:
                group = self.groups[record.group] = Group.empty(self._journal, record.group)
            group.apply(record)
            return True
        if isinstance(record, _GOES_ON):
            group = self.groups.get(record.group)
            if group is not None:  # else a tombstone that outlived its group
                group.apply(record)
            return True
        return False


_BEGINS = (
    records.ConsumerGroupChanged,
    records.ConsumerTopicsSeen,
    records.ConsumerMemberChanged,
    records.TargetEpochChanged,
    records.TargetAssignmentChanged,
    records.CurrentAssignmentChanged,
    records.RegularExpressionResolved,
)
"""Records that may begin a group: a compacted log may have any of them first."""
_GOES_ON = (
    records.ConsumerTopicsRemoved,
    records.ConsumerMemberRemoved,
    records.TargetEpochRemoved,
    records.TargetAssignmentRemoved,
    records.CurrentAssignmentRemoved,
    records.RegularExpressionRemoved,
    changes.RebalanceBegun,
    changes.RebalanceEnded,
    changes.TopicsChecked,
    changes.RegexesChecked,
)
