"""Timeouts in a consumer group: of sessions, and of the revocation of partitions."""

from libs.coordinator.core.decisions import Decision
from services.group_coordinator.core.consumer.group_decision import Decided, GroupDecision, session_ms
from services.group_coordinator.core.consumer.leaves import fence
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import SESSION_OVER, TOO_SLOW
from services.group_coordinator.core.model.records import MemberState


def on_session_timeout(group_decision: GroupDecision, member_id: str) -> Decided:
    member = group_decision.group.members.get(member_id)
    if member is None:
        return Decision()
    lasts_ms = session_ms(member, group_decision.settings, group_decision.configs)
    if member.is_away:
        reason = f"static member {member.instance_id} left, and did not come back within {lasts_ms} ms"
    else:
        reason = reasons.was_silent(member_id, lasts_ms)
    fence(group_decision, member, SESSION_OVER, reason)
    return group_decision.decision()


def on_rebalance_timeout(group_decision: GroupDecision, member_id: str) -> Decided:
    """Fences a member that has not revoked its partitions within the rebalance timeout. Each new demand sets the timer anew."""
    member = group_decision.group.members.get(member_id)
    if member is None or member.state is not MemberState.UNREVOKED_PARTITIONS or member.is_away:
        return Decision()
    late = f"member {member_id} did not give up its partitions within {member.rebalance_timeout_ms} ms"
    fence(group_decision, member, TOO_SLOW, late)
    return group_decision.decision()
