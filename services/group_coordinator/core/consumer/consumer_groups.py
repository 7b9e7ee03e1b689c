"""The consumer protocol (KIP-848) as a part of the group coordinator."""

from collections.abc import Callable, Iterator, Mapping

from libs.runtime.shards.decisions import Decision
from libs.runtime.shards.tables import Journal, Table
from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import DescribedGroup
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from libs.wire.messages.describe_groups import DescribedGroup as DescribedAsClassic
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core import records
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.consumer import changes, commits, expiries, heartbeats, leaves, subscriptions, views
from services.group_coordinator.core.consumer.draft import Decided, Draft, Refused, revocation_key, session_key, session_ms
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import JOINS, Member
from services.group_coordinator.core.consumer.settings import ConsumerSettings, heartbeat_interval_ms, session_timeout_ms
from services.group_coordinator.core.consumer.topic_hashes import TopicHashes
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.topics_view import TopicsView

_DISABLED = Refused(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is disabled.")


class Consumer:
    def __init__(
        self,
        journal: Journal,
        settings: Callable[[], ConsumerSettings],
        group_configs: Callable[[str], Mapping[str, str]],
        topics: Callable[[], TopicsView],
    ) -> None:
        """`group_configs`: of a group, by its name, those that were set. All of them are asked at each decision."""
        self._journal = journal
        self._settings = settings
        self._configs = group_configs
        self._topics = topics
        self._hashes = TopicHashes()
        self.groups: Table[str, Group] = Table(journal)

    # -- requests -----------------------------------------------------------------------------------------------------------

    def decide_heartbeat(self, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Decided:
        """The most frequent of all: where nothing is new, nothing is copied."""
        settings = self._settings()
        name, member_id = request.group_id, request.member_id
        refused = self.refusal(asked, request)
        if refused is not None:
            return refused.decided(request)
        group = self.groups.get(name)
        if group is None and request.member_epoch != JOINS:
            kind = "Group" if request.member_epoch < JOINS else "Consumer group"
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {quoted(name)} not found.").decided(request)
        if request.member_epoch < JOINS:
            return leaves.decide_leave(self.draft(name, now_ms), request)
        member = group.members.get(member_id) if group is not None else None
        if (
            group is not None
            and member is not None
            and heartbeats.is_calm(group, member, asked, request)
            and subscriptions.is_current(group, self._topics(), now_ms, settings)
        ):
            configs = self._configs(name)
            reply = heartbeats.replied(request, member, heartbeat_interval_ms(settings, configs), told=False)
            return Decision(reply, timers={session_key(name, member_id): now_ms + session_timeout_ms(settings, configs)})
        return heartbeats.decide_heartbeat(self.draft(name, now_ms), asked, request)

    def refusal(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> Refused | None:
        """Whatever the group is like."""
        settings = self._settings()
        return heartbeats.invalid(request, asked.version, settings) if settings.enabled else _DISABLED

    def heard_of(self, name: str, member: Member, now_ms: int) -> dict[TimerKey, int | None]:
        """A member of a group that is here."""
        lasts_ms = session_ms(member, self._settings(), self._configs(name))
        return {session_key(name, member.member_id): now_ms + lasts_ms}

    # -- what others ask ----------------------------------------------------------------------------------------------------

    def described(self, name: str) -> DescribedGroup:
        """Of ConsumerGroupDescribe."""
        group = self.groups.get(name)
        if group is None:
            return views.missing(name)
        return views.described(group, self._settings(), self._topics())

    def described_as_classic(self, name: str, version: int) -> DescribedAsClassic:
        """Of DescribeGroups, about a group that is here."""
        return views.described_as_classic(name, version)

    def listed(self, states: list[str], kinds: list[str]) -> list[ListedGroup]:
        """Filters as in ListGroups."""
        return views.listed_where(self.groups.values(), states, kinds)

    def removal_error(self, name: str) -> ErrorCode:
        """Of DeleteGroups."""
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def removal(self, name: str, group: Group | None = None) -> list[records.Removed]:
        """Tombstones for all that the log may have of a group that is here, in Kafka's order. `group`: as it will be then."""
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

    def commit_error(self, name: str, member_id: str, instance_id: str | None, epoch: int, version: int) -> ErrorCode:
        """Of a group that is there. `version` of OffsetCommit. As in Kafka, the instance id is not looked at."""
        return commits.commit_error(self.groups[name], member_id, epoch, version)

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Of OffsetFetch, from version 9 on, and a group that is there."""
        return commits.fetch_error(self.groups[name], member_id, epoch)

    def subscribed_topics(self, name: str) -> frozenset[str]:
        """Names that members ask for or their regular expressions match; none of a group that is not there."""
        group = self.groups.get(name)
        return frozenset() if group is None else frozenset(group.subscriptions)

    def draft(self, name: str, now_ms: int) -> Draft:
        """Of a group that is there, or one that begins."""
        group = self.groups.get(name)
        scratch = group.scratch() if group is not None else Group.empty(Journal(), name)
        return Draft(scratch, now_ms, self._settings(), self._configs(name), self._topics(), self._hashes)

    # -- timers -------------------------------------------------------------------------------------------------------------

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, "session", str(name), str(member_id)) if name in self.groups:
                return expiries.session_over(self.draft(name, now_ms), member_id)
            case (_, "revocation", str(name), str(member_id)) if name in self.groups:
                return expiries.revocation_over(self.draft(name, now_ms), member_id)
        return Decision()

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        """Whoever was heard of by the former owner has its whole session again."""
        settings = self._settings()
        for name, group in self.groups.items():
            configs = self._configs(name)
            for member in group.members.values():
                yield session_key(name, member.member_id), now_ms + session_ms(member, settings, configs)
                if member.state is records.MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    yield revocation_key(name, member.member_id), now_ms + member.rebalance_timeout_ms

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """False: it is not of a group of this protocol."""
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
"""A compacted log may have any of them first."""
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
