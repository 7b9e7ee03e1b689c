"""JoinGroup (KIP-394: member ids first; KIP-345: static members; KIP-814: leaders that skip the assignment)."""

from dataclasses import dataclass

from libs.runtime.shards.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupRequest
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.draft import Decided, Draft, join_park, join_refused, session_key
from services.group_coordinator.core.classic.member import Member, Offered
from services.group_coordinator.core.classic.rebalances import begin, go_on, rebalance, select_protocol
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.happened import NO_ROOM, REPLACED, MemberRemoved, fenced
from services.group_coordinator.core.records import ClassicGroupChanged

KNOWS_ITS_ID_FROM = 4
SKIPS_ASSIGNMENT_FROM = 9
_NAMED_AFTER_MAX = 8_000  # characters: a string on the wire has at most 32,767 bytes


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request, as far as it is the same for all that may become of it."""

    asked: Asked
    request: JoinGroupRequest
    protocols: tuple[Offered, ...]

    @property
    def because(self) -> str:
        return f": {self.request.reason}" if self.request.reason else ""

    @classmethod
    def of(cls, asked: Asked, request: JoinGroupRequest) -> "Join":
        first: dict[str, bytes] = {}
        for offered in request.protocols:
            first.setdefault(offered.name, bytes(offered.metadata))
        return cls(asked, request, tuple([Offered(name, metadata) for name, metadata in first.items()]))

    @property
    def rebalance_timeout_ms(self) -> int:
        request = self.request
        return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms

    def new_member(self, member_id: str) -> Member:
        return self._member(member_id, self.request.group_instance_id, self.protocols, b"", True)

    def member(self, member_id: str, before: Member) -> Member:
        """Of somebody who was in the group, perhaps under another member id."""
        instance_id = before.instance_id if before.member_id == member_id else self.request.group_instance_id
        # Equal bytes are kept once: a group lives long.
        protocols = before.protocols if before.protocols == self.protocols else self.protocols
        return self._member(member_id, instance_id, protocols, before.assignment, before.new)

    def _member(
        self, member_id: str, instance_id: str | None, protocols: tuple[Offered, ...], assignment: bytes, new: bool
    ) -> Member:
        asked, request = self.asked, self.request
        return Member(
            member_id,
            instance_id,
            asked.client_id,
            asked.client_host,
            self.rebalance_timeout_ms,
            request.session_timeout_ms,
            protocols,
            assignment,
            new,
        )

    def refused(self, error: ErrorCode, member_id: str | None = None) -> Decided:
        told = self.request.member_id if member_id is None else member_id
        happened = fenced(self.request.group_id, self.request.member_id, self.request.group_instance_id, error)
        return Decision(join_refused(error, told, self.asked.version), happened=happened)


def decide_join(draft: Draft, join: Join) -> Decided:
    group, request = draft.group, join.request
    if not _has_room(draft, request.member_id):
        return _turn_away(draft, join)
    if not group.supports(request.protocol_type, [name for name, _ in join.protocols]):
        return join.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id:
        return _join_unknown(draft, join)
    if request.member_id in group.pending:
        if request.group_instance_id is not None:  # static members are never pending
            return join.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return _join_new(draft, join, request.member_id)
    fault = group.fault(request.member_id, request.group_instance_id)
    if fault is not None:
        return join.refused(fault)
    return _rejoin(draft, join, group.members[request.member_id])


def _has_room(draft: Draft, member_id: str) -> bool:
    """While a rebalance waits for joins, who has not joined yet does not count: the last to come find no room."""
    group, size_max = draft.group, draft.settings.size_max
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING_REBALANCE:
        return member_id in group.joining or len(group.joining) < size_max
    return member_id in group.members or len(group.members) < size_max


def _turn_away(draft: Draft, join: Join) -> Decided:
    member_id = join.request.member_id
    if member_id in draft.group.members:
        draft.remove(member_id, NO_ROOM)
    elif member_id in draft.group.pending:
        draft.remove_pending(member_id)
    go_on(draft)
    return draft.decision(join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "", join.asked.version))


def _join_unknown(draft: Draft, join: Join) -> Decided:
    request, asked = join.request, join.asked
    instance_id = request.group_instance_id
    if instance_id is not None:
        member_id = f"{instance_id[:_NAMED_AFTER_MAX]}-{asked.fresh_id}"
        old_id = draft.group.statics.get(instance_id)
        if old_id is not None:
            return _replace_static(draft, join, old_id, member_id)
        return _join_new(draft, join, member_id)
    member_id = f"{asked.client_id[:_NAMED_AFTER_MAX]}-{asked.fresh_id}"
    if asked.version < KNOWS_ITS_ID_FROM:
        return _join_new(draft, join, member_id)
    until_ms = draft.now_ms + request.session_timeout_ms
    draft.put(changes.MemberIdGiven(draft.name, member_id, until_ms))
    draft.timers[session_key(draft.name, member_id)] = until_ms
    return draft.decision(join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, asked.version))


def _join_new(draft: Draft, join: Join, member_id: str) -> Decided:
    _wait(draft, join, join.new_member(member_id))
    rebalance(draft, f"member {member_id} joined{join.because}")
    return _parked(draft, join, member_id)


def _wait(draft: Draft, join: Join, member: Member) -> None:
    draft.put(changes.MemberJoined(draft.name, member, join.request.protocol_type, join.asked.version))
    if member.new:  # it sends no heartbeats before it is answered
        draft.timers[session_key(draft.name, member.member_id)] = draft.now_ms + draft.settings.new_member_join_ms_max


def _parked(draft: Draft, join: Join, member_id: str) -> Decided:
    """If the member asked before, its client gave up on that."""
    given_up = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id, join.asked.version)
    return draft.parked(join_park(draft.name, member_id), given_up)


def _rejoin(draft: Draft, join: Join, member: Member) -> Decided:
    group, member_id = draft.group, member.member_id
    same = member.protocols == join.protocols
    if group.state is State.PREPARING_REBALANCE:
        reason = ""
    elif same and (group.state is State.COMPLETING_REBALANCE or group.facts.leader != member_id):
        draft.heard_of(member)
        return draft.decision(draft.joined_reply(member_id))  # the reply that it did not get
    elif same:
        reason = f"leader {member_id} joined again{join.because}"  # such as for topics that gained partitions
    else:
        reason = f"member {member_id} joined again and asks for something else{join.because}"
    _wait(draft, join, join.member(member_id, member))
    rebalance(draft, reason)
    return _parked(draft, join, member_id)


def _replace_static(draft: Draft, join: Join, old_id: str, member_id: str) -> Decided:
    """It was restarted, and does not know its member id. Whoever still goes by the old one is fenced."""
    group, old = draft.group, draft.group.members[old_id]
    leader = group.facts.leader
    draft.wake_join(old_id, ErrorCode.FENCED_INSTANCE_ID, old_id)
    draft.wake_sync(old_id, ErrorCode.FENCED_INSTANCE_ID)
    draft.given_up(old_id)
    draft.happened.append(MemberRemoved(draft.name, old_id, old.instance_id, REPLACED))
    member = join.member(member_id, old)
    draft.put(changes.StaticMemberReplaced(draft.name, old_id, member))
    draft.heard_of(member)
    if group.state is State.STABLE and select_protocol(group) == group.facts.protocol:
        _log_members(draft)
        skips = join.asked.version >= SKIPS_ASSIGNMENT_FROM
        leads = skips and group.facts.leader == member_id
        # Before KIP-814 a leader could not be told to leave the assignment as it is: it is told that another leads.
        reply = draft.joined_reply(member_id, everybody=leads, leader=None if skips else leader)
        reply.skip_assignment = leads
        return draft.decision(reply)
    _wait(draft, join, member)
    if group.state is State.COMPLETING_REBALANCE:
        begin(draft, f"static member {join.request.group_instance_id} was restarted while the leader assigns{join.because}")
    else:
        rebalance(draft, f"static member {join.request.group_instance_id} changes the protocol{join.because}")
    return _parked(draft, join, member_id)


def _log_members(draft: Draft) -> None:
    group, facts = draft.group, draft.group.facts
    members = tuple([member.logged(facts.protocol, member.assignment) for member in group.members.values()])
    draft.log(
        ClassicGroupChanged(
            draft.name,
            facts.protocol_type or "",
            facts.generation,
            facts.protocol,
            facts.leader,
            facts.since_ms,
            members,
        )
    )
