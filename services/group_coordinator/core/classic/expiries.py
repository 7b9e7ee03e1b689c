"""Timeouts in a classic group: of sessions, of joins and of syncs."""

from libs.coordinator.core.decisions import Decision
from services.group_coordinator.core.classic.group_decision import Decided, GroupDecision, joins_key, syncs_key
from services.group_coordinator.core.classic.rebalances import (
    complete_if_all_joined,
    complete_join_phase,
    end_initial_delay,
    prepare_rebalance,
    rebalance,
)
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import SESSION_OVER, TOO_SLOW
from services.group_coordinator.core.model.quoting import listed


def on_session_timeout(group_decision: GroupDecision, member_id: str) -> Decided:
    group = group_decision.group
    if member_id in group.pending:
        group_decision.remove_pending(member_id)
        complete_if_all_joined(group_decision)
        return group_decision.decision()
    member = group.members.get(member_id)
    if member is None:
        return Decision()
    if not member.new and (member_id in group.joining or member_id in group.syncing):
        return Decision()  # it waits for an answer; its session begins anew with that
    group_decision.remove(member_id, SESSION_OVER)
    if member.new:
        reason = f"member {member_id} waited too long to join"
    else:
        reason = reasons.was_silent(member_id, member.session_timeout_ms)
    rebalance(group_decision, reason)
    return group_decision.decision()


def on_join_timeout(group_decision: GroupDecision) -> Decided:
    facts = group_decision.group.facts
    if facts.state is not State.PREPARING_REBALANCE:
        return Decision()
    if facts.join_due_ms > group_decision.now_ms:
        return Decision(timers={joins_key(group_decision.name): facts.join_due_ms})
    if facts.initial:
        end_initial_delay(group_decision)
    else:
        complete_join_phase(group_decision)
    return group_decision.decision()


def on_sync_timeout(group_decision: GroupDecision) -> Decided:
    """Removes members that did not send SyncGroup in time."""
    group = group_decision.group
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced:
        return Decision()
    if group.facts.sync_due_ms > group_decision.now_ms:
        return Decision(timers={syncs_key(group_decision.name): group.facts.sync_due_ms})
    late = list(group.unsynced)
    for member_id in late:
        group_decision.remove(member_id, TOO_SLOW)
    prepare_rebalance(group_decision, f"{listed(late)} did not ask for their assignment in time")
    return group_decision.decision()


def loaded(group_decision: GroupDecision) -> Decided:
    """Begins the rebalances that a freshly loaded group needs.

    A group above the maximum size shrinks as its members join again. A group that was downgraded by the former owner has to agree
    on an assignment.
    """
    group = group_decision.group
    if group.state is State.STABLE and group.facts.leader is None:
        prepare_rebalance(group_decision, "the group is classic again, and was not assigned anew yet")
        return group_decision.decision()
    if group.state is State.STABLE and len(group.members) > group_decision.settings.size_max:
        prepare_rebalance(
            group_decision, f"there are {len(group.members)} members, and {group_decision.settings.size_max} are let in"
        )
        return group_decision.decision()
    return Decision()
