"""The classic protocol as a part of the group coordinator."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from libs.runtime.shards.decisions import Decision, ParkKey
from libs.runtime.shards.tables import Journal, Table
from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_groups import DescribedGroup
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from libs.wire.messages.list_groups import ListedGroup
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core.asked import Asked, Reply
from services.group_coordinator.core.classic import changes, commits, draft, expiries, joins, leaves, syncs, views
from services.group_coordinator.core.classic.draft import PART, Decided, Draft, join_refused
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.settings import ClassicSettings
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.happened import fenced
from services.group_coordinator.core.records import ClassicGroupChanged, ClassicGroupRemoved

STRANDED: TimerKey = (PART, "stranded")


class Stranded(NamedTuple):
    """Waits, and what it waited for was decided without it: an append of which nobody knew is in the log."""

    group: str
    member_id: str
    joins: bool
    """Else it syncs."""


class Classic:
    def __init__(self, journal: Journal, settings: Callable[[], ClassicSettings]) -> None:
        """`settings` are asked for at each decision: they may change."""
        self._journal = journal
        self._settings = settings
        self.groups: Table[str, Group] = Table(journal)
        self._stranded: Table[Stranded, int] = Table(journal)
        """With the generation of a sync, the version of a join."""

    # -- requests -----------------------------------------------------------------------------------------------------------

    def decide_join(self, asked: Asked, request: JoinGroupRequest, now_ms: int) -> Decided:
        error = self.join_error(request)
        if error:
            return Decision(join_refused(error, request.member_id, asked.version))
        group = self.groups.get(request.group_id)
        if group is None and request.member_id:
            return Decision(join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, asked.version))
        return joins.decide_join(self._draft(request.group_id, now_ms), joins.Join.of(asked, request))

    def join_error(self, request: JoinGroupRequest) -> ErrorCode:
        """Whatever the group is like."""
        settings = self._settings()
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def decide_sync(self, asked: Asked, request: SyncGroupRequest, now_ms: int) -> Decided:
        group = self.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            error = syncs.sync_error(group, request)
        if error:
            happened = fenced(request.group_id, request.member_id, request.group_instance_id, error)
            return Decision(SyncGroupResponse(error_code=error), happened=happened)
        return syncs.decide_sync(self._draft(request.group_id, now_ms), request)

    def decide_heartbeat(self, asked: Asked, request: HeartbeatRequest, now_ms: int) -> Decided:
        """The most frequent of all: nothing is copied."""
        group = self.groups.get(request.group_id)
        if group is None:
            missing = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
            return Decision(HeartbeatResponse(error_code=missing))
        member_id = request.member_id
        fault = group.fault(member_id, request.group_instance_id)
        if fault is not None:
            happened = fenced(request.group_id, member_id, request.group_instance_id, fault)
            return Decision(HeartbeatResponse(error_code=fault), happened=happened)
        facts = group.facts
        if request.generation_id != facts.generation:
            return Decision(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        rebalances = facts.state is State.PREPARING_REBALANCE
        return Decision(
            HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalances else 0),
            timers=self.session_refreshed(request.group_id, member_id, now_ms),
        )

    def decide_leave(self, asked: Asked, request: LeaveGroupRequest, now_ms: int) -> Decided:
        if not request.group_id:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if request.group_id not in self.groups:
            return Decision(leaves.unknown(request, asked.version))
        return leaves.decide_leave(self._draft(request.group_id, now_ms), request, asked.version)

    def session_refreshed(self, group: str, member_id: str, now_ms: int) -> Mapping[TimerKey, int | None]:
        """A member was heard of. One that joined and was not answered yet has longer."""
        member = self.groups[group].members[member_id]
        if member.new:
            return {}
        return {(PART, "session", group, member_id): now_ms + member.session_timeout_ms}

    # -- what others ask ----------------------------------------------------------------------------------------------------

    def described(self, name: str, version: int) -> DescribedGroup:
        group = self.groups.get(name)
        return views.described(group) if group is not None else views.missing(name, version)

    def listed(self, states: list[str], kinds: list[str]) -> list[ListedGroup]:
        """Filters as in ListGroups."""
        return views.listed_where(self.groups.values(), states, kinds)

    def removal_error(self, name: str) -> ErrorCode:
        """Of DeleteGroups."""
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Of a group that is there."""
        return commits.commit_error(self.groups[name], member_id, instance_id, generation)

    def _draft(self, name: str, now_ms: int) -> Draft:
        group = self.groups.get(name)
        if group is not None:
            return Draft(group.scratch(), now_ms, self._settings())
        return Draft(Group.empty(Journal(), name, now_ms), now_ms, self._settings(), begins=True)

    # -- timers -------------------------------------------------------------------------------------------------------------

    def expired(self, key: TimerKey, now_ms: int) -> Decided:
        match key:
            case (_, "session", str(name), str(member_id)) if name in self.groups:
                return expiries.session_over(self._draft(name, now_ms), member_id)
            case (_, "joins" | "syncs" | "loaded" as what, str(name)) if name in self.groups:
                return _DUE[what](self._draft(name, now_ms))
            case (_, "stranded"):
                return self._answer_stranded()
        return Decision()

    def timers(self, now_ms: int) -> Iterator[tuple[TimerKey, int]]:
        settings = self._settings()
        if self._stranded:
            yield STRANDED, now_ms
        for name, group in self.groups.items():
            facts = group.facts
            for member in group.members.values():
                lasts_ms = settings.new_member_join_ms_max if member.new else member.session_timeout_ms
                yield draft.session_key(name, member.member_id), now_ms + lasts_ms
            for member_id, until_ms in group.pending.items():
                yield draft.session_key(name, member_id), until_ms
            if facts.state is State.PREPARING_REBALANCE:
                yield draft.joins_key(name), facts.join_due_ms
            if group.unsynced:
                yield draft.syncs_key(name), facts.sync_due_ms
            if len(group.members) > settings.size_max or (facts.state is State.STABLE and facts.leader is None):
                yield (PART, "loaded", name), now_ms

    def _answer_stranded(self) -> Decided:
        wakes: list[tuple[ParkKey, Reply]] = []
        records: list[draft.Recorded] = []
        for stranded, known in self._stranded.items():
            name, member_id, joining = stranded
            group = self.groups.get(name)
            member = group.members.get(member_id) if group is not None else None
            error = ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.REBALANCE_IN_PROGRESS
            if joining:
                wakes.append((draft.join_park(name, member_id), join_refused(error, member_id, known)))
            elif group is not None and member is not None and (group.state, group.facts.generation) == (State.STABLE, known):
                facts = group.facts
                reply = SyncGroupResponse(0, 0, facts.protocol_type, facts.protocol, member.assignment)
                wakes.append((draft.sync_park(name, member_id), reply))
            else:
                wakes.append((draft.sync_park(name, member_id), SyncGroupResponse(error_code=error)))
            records.append(changes.AskerAnswered(name, member_id, joining))
        return Decision(records=records, wakes=wakes)

    # -- records ------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> bool:
        """False: it is not of a classic group."""
        match record:
            case ClassicGroupChanged(name):
                if self._journal.recording and name in self.groups:
                    self.groups[name].agree(record)
                else:
                    self._load(record)
            case ClassicGroupRemoved(name):
                group = self.groups.get(name)
                if group is not None:
                    self._strand(group)
                    del self.groups[name]
            case changes.GroupBegun(name, now_ms):
                self.groups[name] = Group.empty(self._journal, name, now_ms)
            case changes.GroupForgotten(name):
                del self.groups[name]
            case changes.AskerAnswered(name, member_id, joining):
                self._stranded.pop(Stranded(name, member_id, joining), None)
            case _ if isinstance(record, changes.Change):
                self.groups[record.group].apply(record)
                if self._stranded:
                    self._parked_anew(record)
            case _:
                return False
        return True

    def _load(self, record: ClassicGroupChanged) -> None:
        group = self.groups.get(record.group)
        if group is None:
            group = self.groups[record.group] = Group.empty(self._journal, record.group, record.state_changed_ms)
        self._strand(group)
        group.load(record)

    def _strand(self, group: Group) -> None:
        for member_id, waits in group.joining.items():
            self._stranded[Stranded(group.name, member_id, True)] = waits.version
        for member_id in group.syncing:
            self._stranded[Stranded(group.name, member_id, False)] = group.facts.generation

    def _parked_anew(self, record: changes.Change) -> None:
        """Who waited under that key was woken."""
        if isinstance(record, changes.MemberJoined):
            self._stranded.pop(Stranded(record.group, record.member.member_id, True), None)
        elif isinstance(record, changes.MemberSynced) and record.waits:
            self._stranded.pop(Stranded(record.group, record.member_id, False), None)


_DUE: dict[str, Callable[[Draft], Decided]] = {
    "joins": expiries.joins_over,
    "syncs": expiries.syncs_over,
    "loaded": expiries.loaded,
}
