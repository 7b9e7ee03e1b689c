"""SyncGroup: the leader's assignment makes the group stable, and every member gets its part."""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import Decided, GroupDecision, sync_park, syncs_key
from services.group_coordinator.core.classic.member import Member
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.group_events import RebalanceEnded
from services.group_coordinator.core.model.group_kind import CLASSIC
from services.group_coordinator.core.model.records import ClassicGroupChanged


def sync_error(group: Group, request: SyncGroupRequest) -> ErrorCode:
    fault = group.fault(request.member_id, request.group_instance_id)
    if fault is not None:
        return fault
    facts = group.facts
    if request.generation_id != facts.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != facts.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != facts.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if facts.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def decide_sync(group_decision: GroupDecision, request: SyncGroupRequest) -> Decided:
    """The decision about a SyncGroup that has no error."""
    group = group_decision.group
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        if member.member_id in group.unsynced:
            group_decision.put(changes.MemberSynced(group_decision.name, member.member_id, waits=False))
            _all_synced(group_decision)
        group_decision.schedule_session_timeout(member)
        return group_decision.decision(group_decision.synced_reply(member.assignment))
    if group.facts.leader == member.member_id:
        return _assign(group_decision, request)
    group_decision.put(changes.MemberSynced(group_decision.name, member.member_id, waits=True))
    _all_synced(group_decision)
    superseded = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return group_decision.parked(sync_park(group_decision.name, member.member_id), superseded)


def _assign(group_decision: GroupDecision, request: SyncGroupRequest) -> Decided:
    """The decision about the leader's SyncGroup. Members that the leader left out get an empty assignment."""
    group, facts = group_decision.group, group_decision.group.facts
    given = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
    members: list[Member] = [replace(member, assignment=given.get(member.member_id, b"")) for member in group.members.values()]
    for member in members:
        if member.member_id in group.syncing:
            group_decision.wakes.append(
                (sync_park(group_decision.name, member.member_id), group_decision.synced_reply(member.assignment))
            )
            group_decision.schedule_session_timeout(member)
    group_decision.schedule_session_timeout(group.members[request.member_id])
    group_decision.put(changes.MemberSynced(group_decision.name, request.member_id, waits=False))
    _all_synced(group_decision)
    logged = tuple([member.logged(facts.protocol, member.assignment) for member in members])
    group_decision.log(
        ClassicGroupChanged(
            group_decision.name,
            facts.protocol_type or "",
            facts.generation,
            facts.protocol,
            facts.leader,
            group_decision.now_ms,
            logged,
        )
    )
    group_decision.events.append(RebalanceEnded(group_decision.name, CLASSIC, len(members), facts.generation))
    return group_decision.decision(group_decision.synced_reply(given.get(request.member_id, b"")))


def _all_synced(group_decision: GroupDecision) -> None:
    if not group_decision.group.unsynced:
        group_decision.timers[syncs_key(group_decision.name)] = None
