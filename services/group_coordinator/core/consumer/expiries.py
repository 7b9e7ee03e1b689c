"""What becomes due in a group of the consumer protocol: a member is silent, or does not give up what it is to give up."""

from libs.runtime.shards.decisions import Decision
from services.group_coordinator.core.consumer.draft import Decided, Draft, session_ms
from services.group_coordinator.core.consumer.leaves import fence
from services.group_coordinator.core.happened import SESSION_OVER, TOO_SLOW
from services.group_coordinator.core.records import MemberState


def session_over(draft: Draft, member_id: str) -> Decided:
    member = draft.group.members.get(member_id)
    if member is None:
        return Decision()
    lasts_ms = session_ms(member, draft.settings, draft.configs)
    if member.is_away:
        reason = f"static member {member.instance_id} left, and did not come back within {lasts_ms} ms"
    else:
        reason = f"member {member_id} was silent for {lasts_ms} ms"
    fence(draft, member, SESSION_OVER, reason)
    return draft.decision()


def revocation_over(draft: Draft, member_id: str) -> Decided:
    """`rebalance_timeout_ms` after it was told, in the same epoch. Each new demand sets the timer anew."""
    member = draft.group.members.get(member_id)
    if member is None or member.state is not MemberState.UNREVOKED_PARTITIONS or member.is_away:
        return Decision()
    late = f"member {member_id} did not give up its partitions within {member.rebalance_timeout_ms} ms"
    fence(draft, member, TOO_SLOW, late)
    return draft.decision()
