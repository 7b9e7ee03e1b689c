"""How members go: they leave, for a while or for good, or are fenced."""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from services.group_coordinator.core.consumer import subscriptions
from services.group_coordinator.core.consumer.draft import Decided, Draft, Refused
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import LEAVES_FOR_A_WHILE, Member
from services.group_coordinator.core.consumer.partitions import NONE
from services.group_coordinator.core.happened import LEFT, MemberRemoved
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.records import (
    ConsumerMemberRemoved,
    CurrentAssignmentRemoved,
    TargetAssignmentRemoved,
)


def decide_leave(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> Decided:
    """Whatever epoch it had. Whoever is not known is told so."""
    member = leaving(draft.group, request)
    if isinstance(member, Refused):
        return member.decided(request)
    reply = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVES_FOR_A_WHILE:
        draft.put(replace(member, epoch=LEAVES_FOR_A_WHILE, pending=NONE).has(draft.name))
        draft.awaits_nothing(member.member_id)
    else:
        fence(draft, member, LEFT, f"member {member.member_id} left")
    return draft.decision(reply)


def leaving(group: Group, request: ConsumerGroupHeartbeatRequest) -> Member | Refused:
    member_id, instance_id = request.member_id, request.instance_id
    if instance_id is None:
        return group.members.get(member_id) or unknown(group.name, member_id)
    return held_by(group, instance_id, member_id)


def held_by(group: Group, instance_id: str, member_id: str) -> Member | Refused:
    """The static member, which has that member id."""
    holder = group.statics.get(instance_id)
    if holder is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {quoted(instance_id)} is unknown.")
    if holder != member_id:
        return Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {quoted(member_id)} with instance id {quoted(instance_id)} was fenced by member {quoted(holder)}.",
        )
    return group.members[holder]


def unknown(group: str, member_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {quoted(member_id)} is not a member of group {quoted(group)}.")


def remove(draft: Draft, member: Member, why: str) -> None:
    """All that the log has of it, in this order: what it has, what it is to have, what it asks for."""
    draft.put(CurrentAssignmentRemoved(draft.name, member.member_id))
    draft.put(TargetAssignmentRemoved(draft.name, member.member_id))
    draft.put(ConsumerMemberRemoved(draft.name, member.member_id))
    draft.given_up(member.member_id)
    draft.happened.append(MemberRemoved(draft.name, member.member_id, member.instance_id, why))


def fence(draft: Draft, member: Member, why: str, reason: str) -> None:
    """It is no member any more, and others get what it had: a rebalance begins for that `reason`."""
    remove(draft, member, why)
    subscriptions.without(draft, member)
    draft.bump(reason)
