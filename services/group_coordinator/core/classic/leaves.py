"""LeaveGroup: one member below version 3, several from then on. An operator may remove a static member by its instance id."""

from libs.wire.errors import ErrorCode
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from services.group_coordinator.core.classic.draft import Decided, Draft
from services.group_coordinator.core.classic.rebalances import go_on, rebalance
from services.group_coordinator.core.happened import BY_OPERATOR, LEFT, fenced
from services.group_coordinator.core.quoted import listed

SEVERAL_FROM = 3


def leaving(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    return request.members if version >= SEVERAL_FROM else [MemberIdentity(request.member_id)]


def left_reply(answers: list[MemberResponse], version: int) -> LeaveGroupResponse:
    if version >= SEVERAL_FROM:
        return LeaveGroupResponse(members=answers)
    return LeaveGroupResponse(error_code=answers[0].error_code)


def unknown(request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    """There is no such group."""
    return left_reply(
        [MemberResponse(who.member_id, who.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for who in leaving(request, version)],
        version,
    )


def decide_leave(draft: Draft, request: LeaveGroupRequest, version: int) -> Decided:
    answers: list[MemberResponse] = []
    reasons: list[str] = []
    for who in leaving(request, version):
        error = _leave(draft, who, reasons)
        answers.append(MemberResponse(who.member_id, who.group_instance_id, error))
    if reasons:
        rebalance(draft, listed(reasons))
    else:
        go_on(draft)
    return draft.decision(left_reply(answers, version))


def _leave(draft: Draft, who: MemberIdentity, reasons: list[str]) -> ErrorCode:
    group, member_id = draft.group, who.member_id
    because = f": {who.reason}" if who.reason else ""
    if not member_id:
        held_by = group.statics.get(who.group_instance_id) if who.group_instance_id is not None else None
        if held_by is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        reasons.append(f"static member {who.group_instance_id} was removed{because}")
        draft.remove(held_by, BY_OPERATOR)
        return ErrorCode.NONE
    if member_id in group.pending:  # whatever instance it says that it is: as in Kafka
        draft.remove_pending(member_id)
        return ErrorCode.NONE
    fault = group.fault(member_id, who.group_instance_id)
    if fault is not None:
        draft.happened += fenced(draft.name, member_id, who.group_instance_id, fault)
        return fault
    reasons.append(f"member {member_id} left{because}")
    draft.remove(member_id, LEFT)
    return ErrorCode.NONE
