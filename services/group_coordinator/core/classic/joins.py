"""JoinGroup (KIP-394: member ids first; KIP-345: static members; KIP-814: leaders that skip the assignment)."""

from libs.coordinator.core.decisions import Decision
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupRequest
from services.group_coordinator.core.classic import changes, rejoins
from services.group_coordinator.core.classic.group_decision import Decided, GroupDecision, join_park, join_refused, session_key
from services.group_coordinator.core.classic.member import Member, Offered, PendingMember
from services.group_coordinator.core.classic.rebalances import (
    complete_if_all_joined,
    prepare_rebalance,
    rebalance,
    select_protocol,
)
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import NO_ROOM, REPLACED, MemberRemoved, fenced
from services.group_coordinator.core.model.records import ClassicGroupChanged
from services.group_coordinator.core.model.requests import RequestEvent

MEMBER_ID_REQUIRED_FROM = 4
SKIPS_ASSIGNMENT_FROM = 9
_ID_PREFIX_MAX = 8_000  # characters: a string on the wire has at most 32,767 bytes


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request with its protocols, whatever becomes of it."""

    event: RequestEvent
    request: JoinGroupRequest
    protocols: tuple[Offered, ...]

    @property
    def because(self) -> str:
        return f": {self.request.reason}" if self.request.reason else ""

    @classmethod
    def of(cls, event: RequestEvent, request: JoinGroupRequest) -> "Join":
        first: dict[str, bytes] = {}
        for offered in request.protocols:
            first.setdefault(offered.name, bytes(offered.metadata))
        return cls(event, request, tuple([Offered(name, metadata) for name, metadata in first.items()]))

    @property
    def rebalance_timeout_ms(self) -> int:
        request = self.request
        return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms

    def new_member(self, member_id: str) -> Member:
        return self._member(member_id, self.request.group_instance_id, self.protocols, b"", True)

    def member(self, member_id: str, before: Member) -> Member:
        """The changed member. It was in the group before, perhaps under another member id."""
        instance_id = before.instance_id if before.member_id == member_id else self.request.group_instance_id
        # Equal bytes are kept once, since a group lives long.
        protocols = before.protocols if before.protocols == self.protocols else self.protocols
        return self._member(member_id, instance_id, protocols, before.assignment, before.new)

    def _member(
        self, member_id: str, instance_id: str | None, protocols: tuple[Offered, ...], assignment: bytes, new: bool
    ) -> Member:
        event, request = self.event, self.request
        return Member(
            member_id,
            instance_id,
            event.client_id,
            event.client_host,
            self.rebalance_timeout_ms,
            request.session_timeout_ms,
            protocols,
            assignment,
            new,
        )

    def refused(self, error: ErrorCode, member_id: str | None = None) -> Decided:
        shown_id = self.request.member_id if member_id is None else member_id
        events = fenced(self.request.group_id, self.request.member_id, self.request.group_instance_id, error)
        return Decision(join_refused(error, shown_id, self.event.version), events=events)


def decide_join(group_decision: GroupDecision, join: Join) -> Decided:
    group, request = group_decision.group, join.request
    if not _has_room(group_decision, request.member_id):
        return _turn_away(group_decision, join)
    if not group.supports(request.protocol_type, [name for name, _ in join.protocols]):
        return join.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id:
        return _join_unknown(group_decision, join)
    if request.member_id in group.pending:
        if request.group_instance_id is not None:  # static members are never pending
            return join.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        # The reason in this request only says that a member id was required.
        return _join_new(group_decision, join, request.member_id, group.pending[request.member_id].said)
    fault = group.fault(request.member_id, request.group_instance_id)
    if fault is not None:
        return join.refused(fault)
    return _rejoin(group_decision, join, group.members[request.member_id])


def _has_room(group_decision: GroupDecision, member_id: str) -> bool:
    """Whether the member may join. During a rebalance only joined members count, so the last ones to join may find the group
    full."""
    group, size_max = group_decision.group, group_decision.settings.size_max
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING_REBALANCE:
        return member_id in group.joining or len(group.joining) < size_max
    return member_id in group.members or len(group.members) < size_max


def _turn_away(group_decision: GroupDecision, join: Join) -> Decided:
    member_id = join.request.member_id
    if member_id in group_decision.group.members:
        group_decision.remove(member_id, NO_ROOM)
    elif member_id in group_decision.group.pending:
        group_decision.remove_pending(member_id)
    complete_if_all_joined(group_decision)
    return group_decision.decision(join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "", join.event.version))


def _join_unknown(group_decision: GroupDecision, join: Join) -> Decided:
    request, event = join.request, join.event
    instance_id = request.group_instance_id
    if instance_id is not None:
        member_id = f"{instance_id[:_ID_PREFIX_MAX]}-{event.fresh_id}"
        old_id = group_decision.group.statics.get(instance_id)
        if old_id is not None:
            return _replace_static(group_decision, join, old_id, member_id)
        return _join_new(group_decision, join, member_id, request.reason)
    member_id = f"{event.client_id[:_ID_PREFIX_MAX]}-{event.fresh_id}"
    if event.version < MEMBER_ID_REQUIRED_FROM:
        return _join_new(group_decision, join, member_id, request.reason)
    until_ms = group_decision.now_ms + request.session_timeout_ms
    group_decision.put(changes.MemberIdGiven(group_decision.name, member_id, PendingMember(until_ms, request.reason or "")))
    group_decision.timers[session_key(group_decision.name, member_id)] = until_ms
    return group_decision.decision(join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, event.version))


def _join_new(group_decision: GroupDecision, join: Join, member_id: str, said: str | None) -> Decided:
    """`said`: the reason that the client gives."""
    _wait(group_decision, join, join.new_member(member_id))
    rebalance(group_decision, reasons.joined(member_id, said))
    return _parked(group_decision, join, member_id)


def _wait(group_decision: GroupDecision, join: Join, member: Member) -> None:
    group_decision.put(changes.MemberJoined(group_decision.name, member, join.request.protocol_type, join.event.version))
    if member.new:  # it sends no heartbeats before it has an answer
        group_decision.timers[session_key(group_decision.name, member.member_id)] = (
            group_decision.now_ms + group_decision.settings.new_member_join_ms_max
        )


def _parked(group_decision: GroupDecision, join: Join, member_id: str) -> Decided:
    """Parks the member's JoinGroup. Its earlier one is refused: the client has given up on that."""
    superseded = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id, join.event.version)
    return group_decision.parked(join_park(group_decision.name, member_id), superseded)


def _rejoin(group_decision: GroupDecision, join: Join, member: Member) -> Decided:
    group, member_id = group_decision.group, member.member_id
    same = member.protocols == join.protocols
    if group.state is State.PREPARING_REBALANCE:
        reason = ""
    elif same and (group.state is State.COMPLETING_REBALANCE or group.facts.leader != member_id):
        group_decision.schedule_session_timeout(member)
        return group_decision.decision(group_decision.joined_reply(member_id))  # the same reply again: the member did not get it
    else:
        reason = rejoins.reason(group, group_decision.topics, member, join.protocols, join.request.reason)
    _wait(group_decision, join, join.member(member_id, member))
    rebalance(group_decision, reason)
    return _parked(group_decision, join, member_id)


def _replace_static(group_decision: GroupDecision, join: Join, old_id: str, member_id: str) -> Decided:
    """Replaces a static member that restarted without its member id. Whoever still uses the old id is fenced."""
    group, old = group_decision.group, group_decision.group.members[old_id]
    leader = group.facts.leader
    group_decision.wake_join(old_id, ErrorCode.FENCED_INSTANCE_ID, old_id)
    group_decision.wake_sync(old_id, ErrorCode.FENCED_INSTANCE_ID)
    group_decision.cancel_timers(old_id)
    group_decision.events.append(MemberRemoved(group_decision.name, old_id, old.instance_id, REPLACED))
    member = join.member(member_id, old)
    group_decision.put(changes.StaticMemberReplaced(group_decision.name, old_id, member))
    group_decision.schedule_session_timeout(member)
    if group.state is State.STABLE and select_protocol(group) == group.facts.protocol:
        _log_members(group_decision)
        skips = join.event.version >= SKIPS_ASSIGNMENT_FROM
        leads = skips and group.facts.leader == member_id
        # Before KIP-814 a leader could not skip the assignment, so the reply names another leader.
        reply = group_decision.joined_reply(member_id, everybody=leads, leader=None if skips else leader)
        reply.skip_assignment = leads
        return group_decision.decision(reply)
    _wait(group_decision, join, member)
    if group.state is State.COMPLETING_REBALANCE:
        prepare_rebalance(
            group_decision, f"static member {join.request.group_instance_id} was restarted while the leader assigns{join.because}"
        )
    else:
        rebalance(group_decision, f"static member {join.request.group_instance_id} changes the protocol{join.because}")
    return _parked(group_decision, join, member_id)


def _log_members(group_decision: GroupDecision) -> None:
    group, facts = group_decision.group, group_decision.group.facts
    members = tuple([member.logged(facts.protocol, member.assignment) for member in group.members.values()])
    group_decision.log(
        ClassicGroupChanged(
            group_decision.name,
            facts.protocol_type or "",
            facts.generation,
            facts.protocol,
            facts.leader,
            facts.since_ms,
            members,
        )
    )
