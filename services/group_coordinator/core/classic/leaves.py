"""LeaveGroup: one member below version 3, several from version 3 on. An operator may remove a static member by its
instance id."""

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.errors import ErrorCode
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import Decided, GroupDecision
from services.group_coordinator.core.classic.member import Member
from services.group_coordinator.core.classic.rebalances import complete_if_all_joined, rebalance
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import BY_OPERATOR, LEFT, fenced
from services.group_coordinator.core.model.quoting import listed

SEVERAL_MEMBERS_FROM = 3


def leaving(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    return request.members if version >= SEVERAL_MEMBERS_FROM else [MemberIdentity(request.member_id)]


def left_reply(answers: list[MemberResponse], version: int) -> LeaveGroupResponse:
    if version >= SEVERAL_MEMBERS_FROM:
        return LeaveGroupResponse(members=answers)
    return LeaveGroupResponse(error_code=answers[0].error_code)


def unknown(request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    """The reply for a group that does not exist."""
    return left_reply(
        [
            MemberResponse(identity.member_id, identity.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
            for identity in leaving(request, version)
        ],
        version,
    )


def decide_leave(group_decision: GroupDecision, request: LeaveGroupRequest, version: int) -> Decided:
    answers: list[MemberResponse] = []
    departures: list[str] = []
    for identity in leaving(request, version):
        error = _leave(group_decision, identity, departures)
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
    if departures:
        rebalance(group_decision, listed(departures))
    else:
        complete_if_all_joined(group_decision)
    return group_decision.decision(left_reply(answers, version))


def _leave(group_decision: GroupDecision, identity: MemberIdentity, departures: list[str]) -> ErrorCode:
    group, member_id = group_decision.group, identity.member_id
    if not member_id:
        held_by = group.statics.get(identity.group_instance_id) if identity.group_instance_id is not None else None
        if held_by is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        departures.append(reasons.removed_by_operator(identity.group_instance_id, identity.reason))
        group_decision.remove(held_by, BY_OPERATOR)
        return ErrorCode.NONE
    if member_id in group.pending:  # its instance id does not count, as in Kafka
        group_decision.remove_pending(member_id)
        return ErrorCode.NONE
    fault = group.fault(member_id, identity.group_instance_id)
    if fault is not None:
        group_decision.events += fenced(group_decision.name, member_id, identity.group_instance_id, fault)
        return fault
    departures.append(_departure(group, group.members[member_id], identity.reason))
    group_decision.remove(member_id, LEFT)
    return ErrorCode.NONE


def _departure(group: Group, member: Member, said: str | None) -> str:
    if said or group.facts.protocol_type != PROTOCOL_TYPE:
        return reasons.left(member.member_id, said)
    return reasons.left_silently(member.member_id, member.rebalance_timeout_ms)
