"""The classic protocol as a part of the group coordinator."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from libs.coordinator.core.decisions import Decision, ParkKey
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import DescribedGroup as DescribedAsConsumer
from libs.wire.messages.describe_groups import DescribedGroup
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from libs.wire.messages.list_groups import ListedGroup
from libs.wire.messages.offset_commit import OffsetCommitRequest
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core.classic import changes, commits, expiries, group_decision, joins, leaves, syncs, views
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import PART, Decided, GroupDecision, join_refused
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.group_events import fenced
from services.group_coordinator.core.model.group_kind import CLASSIC, list_where, not_a_consumer_group
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import ClassicGroupChanged, ClassicGroupRemoved
from services.group_coordinator.core.model.requests import Reply, RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView

STRANDED: TimerKey = (PART, "stranded")


class StrandedRequest(NamedTuple):
    """A request that waits, while the log shows that its rebalance ended without it. That append had an unknown outcome."""

    group: str
    member_id: str
    joins: bool
    """True for JoinGroup, False for SyncGroup."""


class ClassicGroups:
    """All classic groups of a shard: a `Kind`."""

    def __init__(self, journal: Journal, settings: Callable[[], ClassicSettings], topics: Callable[[], TopicsView]) -> None:
        """`settings` and `topics` are called at each decision, since they may change."""
        self._journal = journal
        self._settings = settings
        self._topics = topics
        self.groups: Table[str, Group] = Table(journal)
        self.stranded_requests: Table[StrandedRequest, int] = Table(journal)
        """The generation of a SyncGroup, or the version of a JoinGroup."""

    # -- requests -----------------------------------------------------------------------------------------------------------

    def decide_join(self, event: RequestEvent, request: JoinGroupRequest, now_ms: int) -> Decided:
        error = self.join_error(request)
        if error:
            return Decision(join_refused(error, request.member_id, event.version))
        group = self.groups.get(request.group_id)
        if group is None and request.member_id:
            return Decision(join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, event.version))
        return joins.decide_join(self._group_decision(request.group_id, now_ms), joins.Join.of(event, request))

    def join_error(self, request: JoinGroupRequest) -> ErrorCode:
        """The error of a request that no group could accept."""
        settings = self._settings()
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def decide_sync(self, event: RequestEvent, request: SyncGroupRequest, now_ms: int) -> Decided:
        group = self.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            error = syncs.sync_error(group, request)
        if error:
            events = fenced(request.group_id, request.member_id, request.group_instance_id, error)
            return Decision(SyncGroupResponse(error_code=error), events=events)
        return syncs.decide_sync(self._group_decision(request.group_id, now_ms), request)

    def decide_heartbeat(self, event: RequestEvent, request: HeartbeatRequest, now_ms: int) -> Decided:
        """The answer to a heartbeat. It is the most frequent request, so nothing is copied."""
        group = self.groups.get(request.group_id)
        if group is None:
            missing = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
            return Decision(HeartbeatResponse(error_code=missing))
        member_id = request.member_id
        fault = group.fault(member_id, request.group_instance_id)
        if fault is not None:
            events = fenced(request.group_id, member_id, request.group_instance_id, fault)
            return Decision(HeartbeatResponse(error_code=fault), events=events)
        facts = group.facts
        if request.generation_id != facts.generation:
            return Decision(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        rebalances = facts.state is State.PREPARING_REBALANCE
        return Decision(
            HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalances else 0),
            timers=self.session_timers(request.group_id, member_id, now_ms),
        )

    def decide_leave(self, event: RequestEvent, request: LeaveGroupRequest, now_ms: int) -> Decided:
        if not request.group_id:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if request.group_id not in self.groups:
            return Decision(leaves.unknown(request, event.version))
        return leaves.decide_leave(self._group_decision(request.group_id, now_ms), request, event.version)

    def session_timers(self, group: str, member_id: str, now_ms: int) -> Mapping[TimerKey, int | None]:
        """The session timer of a member that sent a request. A new member without an answer yet has a longer one."""
        member = self.groups[group].members[member_id]
        if member.new:
            return {}
        return {(PART, "session", group, member_id): now_ms + member.session_timeout_ms}

    # -- as a kind of groups ------------------------------------------------------------------------------------------------

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        return commits.commit_error(self.groups[name], request.member_id, request.group_instance_id, generation)

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return commits.transactional_commit_error(self.groups[name], member_id, instance_id, generation)

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Mapping[TimerKey, int | None]:
        if self.groups[name].state not in commits.MAINTAINED_IN:
            return {}
        return self.session_timers(name, request.member_id, now_ms)

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """The error of OffsetFetch: none, since a classic group's offsets are open to all."""
        return ErrorCode.NONE

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return commits.offset_deletion_error(self.groups[name])

    def deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE if self.groups[name].state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def subscription(self, name: str) -> Container[str]:
        return commits.subscription(self.groups[name])

    def expiry_base_ms(self, name: str) -> int | None:
        return commits.expiry_base_ms(self.groups[name])

    def tombstones(self, name: str) -> Sequence[ClassicGroupRemoved]:
        return (ClassicGroupRemoved(name),)

    def describe_as_classic_group(self, name: str, version: int) -> DescribedGroup:
        return views.describe(self.groups[name])

    def describe_as_consumer_group(self, name: str, version: int) -> DescribedAsConsumer:
        return not_a_consumer_group(name, f"Group {quoted(name)} is not a consumer group.")

    def listed(self, states: list[str], kinds: list[str], names: Iterable[str] | None = None) -> list[ListedGroup]:
        """Groups that pass the filters of ListGroups. `names`: of these alone."""
        groups = self.groups
        chosen = groups.values() if names is None else [groups[name] for name in names if name in groups]
        return list_where(CLASSIC, chosen, views.listed, states, kinds)

    def _group_decision(self, name: str, now_ms: int) -> GroupDecision:
        group = self.groups.get(name)
        if group is not None:
            return GroupDecision(group.scratch(), now_ms, self._settings(), self._topics())
        return GroupDecision(Group.empty(Journal(), name, now_ms), now_ms, self._settings(), self._topics(), begins=True)

    # -- timers -------------------------------------------------------------------------------------------------------------

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, "session", str(name), str(member_id)) if name in self.groups:
                return expiries.on_session_timeout(self._group_decision(name, now_ms), member_id)
            case (_, "joins" | "syncs" | "loaded" as what, str(name)) if name in self.groups:
                return _DUE[what](self._group_decision(name, now_ms))
            case (_, "stranded"):
                return self._answer_stranded()
        return Decision()

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        settings = self._settings()
        if self.stranded_requests:
            yield STRANDED, now_ms
        for name, group in self.groups.items():
            facts = group.facts
            for member in group.members.values():
                lasts_ms = settings.new_member_join_ms_max if member.new else member.session_timeout_ms
                yield group_decision.session_key(name, member.member_id), now_ms + lasts_ms
            for member_id, pending in group.pending.items():
                yield group_decision.session_key(name, member_id), pending.until_ms
            if facts.state is State.PREPARING_REBALANCE:
                yield group_decision.joins_key(name), facts.join_due_ms
            if group.unsynced:
                yield group_decision.syncs_key(name), facts.sync_due_ms
            if len(group.members) > settings.size_max or (facts.state is State.STABLE and facts.leader is None):
                yield (PART, "loaded", name), now_ms

    def _answer_stranded(self) -> Decided:
        wakes: list[tuple[ParkKey, Reply]] = []
        records: list[group_decision.Recorded] = []
        for stranded, known in self.stranded_requests.items():
            name, member_id, joining = stranded
            group = self.groups.get(name)
            member = group.members.get(member_id) if group is not None else None
            error = ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.REBALANCE_IN_PROGRESS
            if joining:
                wakes.append((group_decision.join_park(name, member_id), join_refused(error, member_id, known)))
            elif group is not None and member is not None and (group.state, group.facts.generation) == (State.STABLE, known):
                facts = group.facts
                reply = SyncGroupResponse(0, 0, facts.protocol_type, facts.protocol, member.assignment)
                wakes.append((group_decision.sync_park(name, member_id), reply))
            else:
                wakes.append((group_decision.sync_park(name, member_id), SyncGroupResponse(error_code=error)))
            records.append(changes.StrandedRequestAnswered(name, member_id, joining))
        return Decision(records=records, wakes=wakes)

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """Applies `record`; False if it is not about a classic group."""
        match record:
            case ClassicGroupChanged(name):
                if self._journal.recording and name in self.groups:
                    self.groups[name].agree(record)
                else:
                    self._load(record)
            case ClassicGroupRemoved(name):
                group = self.groups.get(name)
                if group is not None:
                    self._strand_requests(group)
                    del self.groups[name]
            case changes.GroupBegun(name, now_ms):
                self.groups[name] = Group.empty(self._journal, name, now_ms)
            case changes.GroupForgotten(name):
                del self.groups[name]
            case changes.StrandedRequestAnswered(name, member_id, joining):
                self.stranded_requests.pop(StrandedRequest(name, member_id, joining), None)
            case _ if isinstance(record, changes.Change):
                self.groups[record.group].apply(record)
                if self.stranded_requests:
                    self._unstrand(record)
            case _:
                return False
        return True

    def _load(self, record: ClassicGroupChanged) -> None:
        group = self.groups.get(record.group)
        if group is None:
            group = self.groups[record.group] = Group.empty(self._journal, record.group, record.state_changed_ms)
        self._strand_requests(group)
        group.load(record)

    def _strand_requests(self, group: Group) -> None:
        for member_id, waits in group.joining.items():
            self.stranded_requests[StrandedRequest(group.name, member_id, True)] = waits.version
        for member_id in group.syncing:
            self.stranded_requests[StrandedRequest(group.name, member_id, False)] = group.facts.generation

    def _unstrand(self, record: changes.Change) -> None:
        """Forgets a stranded request, since a new one under its key has answered it."""
        if isinstance(record, changes.MemberJoined):
            self.stranded_requests.pop(StrandedRequest(record.group, record.member.member_id, True), None)
        elif isinstance(record, changes.MemberSynced) and record.waits:
            self.stranded_requests.pop(StrandedRequest(record.group, record.member_id, False), None)


_DUE: dict[str, Callable[[GroupDecision], Decided]] = {
    "joins": expiries.on_join_timeout,
    "syncs": expiries.on_sync_timeout,
    "loaded": expiries.loaded,
}
