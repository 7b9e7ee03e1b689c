"""SyncGroup: the leader's assignment makes the group stable, and everybody gets their part."""

from dataclasses import replace

from libs.wire.errors import ErrorCode
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.draft import Decided, Draft, sync_park, syncs_key
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.member import Member
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.happened import CLASSIC, RebalanceEnded
from services.group_coordinator.core.records import ClassicGroupChanged


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


def decide_sync(draft: Draft, request: SyncGroupRequest) -> Decided:
    """One without an error."""
    group = draft.group
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        if member.member_id in group.unsynced:
            draft.put(changes.MemberSynced(draft.name, member.member_id, waits=False))
            _all_synced(draft)
        draft.heard_of(member)
        return draft.decision(draft.synced_reply(member.assignment))
    if group.facts.leader == member.member_id:
        return _assign(draft, request)
    draft.put(changes.MemberSynced(draft.name, member.member_id, waits=True))
    _all_synced(draft)
    given_up = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return draft.parked(sync_park(draft.name, member.member_id), given_up)


def _assign(draft: Draft, request: SyncGroupRequest) -> Decided:
    """Members that the leader left out get an empty assignment; who is not a member gets none."""
    group, facts = draft.group, draft.group.facts
    given = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
    members: list[Member] = [replace(member, assignment=given.get(member.member_id, b"")) for member in group.members.values()]
    for member in members:
        if member.member_id in group.syncing:
            draft.wakes.append((sync_park(draft.name, member.member_id), draft.synced_reply(member.assignment)))
            draft.heard_of(member)
    draft.heard_of(group.members[request.member_id])
    draft.put(changes.MemberSynced(draft.name, request.member_id, waits=False))
    _all_synced(draft)
    logged = tuple([member.logged(facts.protocol, member.assignment) for member in members])
    draft.log(
        ClassicGroupChanged(
            draft.name, facts.protocol_type or "", facts.generation, facts.protocol, facts.leader, draft.now_ms, logged
        )
    )
    draft.happened.append(RebalanceEnded(draft.name, CLASSIC, len(members), facts.generation))
    return draft.decision(draft.synced_reply(given.get(request.member_id, b"")))


def _all_synced(draft: Draft) -> None:
    if not draft.group.unsynced:
        draft.timers[syncs_key(draft.name)] = None
