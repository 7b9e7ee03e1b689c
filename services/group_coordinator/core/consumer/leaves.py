"""Departures of members: temporary ones, final ones, and fencing."""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from services.group_coordinator.core.consumer import subscriptions
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import Decided, GroupDecision, Refused
from services.group_coordinator.core.consumer.member import LEAVE_GROUP_STATIC_MEMBER_EPOCH, Member
from services.group_coordinator.core.consumer.partitions import NONE
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import LEFT, MemberRemoved
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import (
    ConsumerMemberRemoved,
    CurrentAssignmentRemoved,
    TargetAssignmentRemoved,
)


def decide_leave(group_decision: GroupDecision, request: ConsumerGroupHeartbeatRequest) -> Decided:
    """The decision about a member that leaves, whatever its epoch."""
    member = leaving(group_decision.group, request)
    if isinstance(member, Refused):
        return member.decided(request)
    reply = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        group_decision.put(
            replace(member, epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, pending=NONE).assignment_record(group_decision.name)
        )
        group_decision.cancel_rebalance_timeout(member.member_id)
    else:
        fence(group_decision, member, LEFT, reasons.left_silently(member.member_id, member.rebalance_timeout_ms))
    return group_decision.decision(reply)


def leaving(group: Group, request: ConsumerGroupHeartbeatRequest) -> Member | Refused:
    member_id, instance_id = request.member_id, request.instance_id
    if instance_id is None:
        return group.members.get(member_id) or unknown(group.name, member_id)
    return held_by(group, instance_id, member_id)


def held_by(group: Group, instance_id: str, member_id: str) -> Member | Refused:
    """The static member with that instance id, if it has that member id."""
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


def remove(group_decision: GroupDecision, member: Member, why: str) -> None:
    """Removes a member: its current assignment, its target assignment and its metadata, in this order."""
    group_decision.put(CurrentAssignmentRemoved(group_decision.name, member.member_id))
    group_decision.put(TargetAssignmentRemoved(group_decision.name, member.member_id))
    group_decision.put(ConsumerMemberRemoved(group_decision.name, member.member_id))
    group_decision.cancel_timers(member.member_id)
    group_decision.events.append(MemberRemoved(group_decision.name, member.member_id, member.instance_id, why))


def fence(group_decision: GroupDecision, member: Member, why: str, reason: str) -> None:
    """Removes a member and begins a rebalance for that `reason`, so that others get its partitions."""
    remove(group_decision, member, why)
    subscriptions.without(group_decision, member)
    group_decision.bump(reason)
