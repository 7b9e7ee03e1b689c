"""What becomes due in a classic group: a member is silent, joins or assignments take too long."""

from libs.runtime.shards.decisions import Decision
from services.group_coordinator.core.classic.draft import Decided, Draft, joins_key, syncs_key
from services.group_coordinator.core.classic.rebalances import begin, complete, delay_over, go_on, rebalance
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.happened import SESSION_OVER, TOO_SLOW
from services.group_coordinator.core.quoted import listed


def session_over(draft: Draft, member_id: str) -> Decided:
    group = draft.group
    if member_id in group.pending:
        draft.remove_pending(member_id)
        go_on(draft)
        return draft.decision()
    member = group.members.get(member_id)
    if member is None:
        return Decision()
    if not member.new and (member_id in group.joining or member_id in group.syncing):
        return Decision()  # it waits for us; its session begins anew when it is answered
    draft.remove(member_id, SESSION_OVER)
    if member.new:
        reason = f"member {member_id} waited too long to join"
    else:
        reason = f"member {member_id} was silent for {member.session_timeout_ms} ms"
    rebalance(draft, reason)
    return draft.decision()


def joins_over(draft: Draft) -> Decided:
    facts = draft.group.facts
    if facts.state is not State.PREPARING_REBALANCE:
        return Decision()
    if facts.join_due_ms > draft.now_ms:
        return Decision(timers={joins_key(draft.name): facts.join_due_ms})
    if facts.initial:
        delay_over(draft)
    else:
        complete(draft)
    return draft.decision()


def syncs_over(draft: Draft) -> Decided:
    """Who did not ask for its assignment in time is not there."""
    group = draft.group
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced:
        return Decision()
    if group.facts.sync_due_ms > draft.now_ms:
        return Decision(timers={syncs_key(draft.name): group.facts.sync_due_ms})
    late = list(group.unsynced)
    for member_id in late:
        draft.remove(member_id, TOO_SLOW)
    begin(draft, f"{listed(late)} did not ask for their assignment in time")
    return draft.decision()


def loaded(draft: Draft) -> Decided:
    """A group that is larger than it may be, since the setting was changed, gets smaller as its members join again. One that was
    of the consumer protocol until the former owner ended has to agree on an assignment."""
    group = draft.group
    if group.state is State.STABLE and group.facts.leader is None:
        begin(draft, "the group is classic again, and was not assigned anew yet")
        return draft.decision()
    if group.state is State.STABLE and len(group.members) > draft.settings.size_max:
        begin(draft, f"there are {len(group.members)} members, and {draft.settings.size_max} are let in")
        return draft.decision()
    return Decision()
