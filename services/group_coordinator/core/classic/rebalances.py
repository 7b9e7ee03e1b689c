"""Rebalances: their beginning, their end when all have joined, and the new generation."""

from collections import Counter

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import GroupDecision, join_park, joins_key, syncs_key
from services.group_coordinator.core.classic.states import TRANSITIONS, Event, State
from services.group_coordinator.core.model.group_events import TOO_SLOW, RebalanceBegan, RebalanceEnded
from services.group_coordinator.core.model.group_kind import CLASSIC
from services.group_coordinator.core.model.records import ClassicGroupChanged


def rebalance(group_decision: GroupDecision, reason: str) -> None:
    """Begins a rebalance, or continues the one in progress."""
    if (group_decision.group.state, Event.REBALANCES) in TRANSITIONS:
        prepare_rebalance(group_decision, reason)
    else:
        complete_if_all_joined(group_decision)


def prepare_rebalance(group_decision: GroupDecision, reason: str) -> None:
    group, now_ms = group_decision.group, group_decision.now_ms
    for member_id in group.syncing:
        group_decision.wake_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        group_decision.schedule_session_timeout(group.members[member_id])
    initial, again = group.state is State.EMPTY, group.state is State.COMPLETING_REBALANCE
    remaining_ms = 0
    if initial:
        due_ms = now_ms + group_decision.settings.initial_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - group_decision.settings.initial_delay_ms, 0)
    else:
        due_ms = now_ms + group.rebalance_timeout_ms
    group_decision.timers[syncs_key(group_decision.name)] = None
    group_decision.timers[joins_key(group_decision.name)] = due_ms
    group_decision.put(changes.RebalanceBegun(group_decision.name, reason, now_ms, due_ms, remaining_ms))
    name, timeout_ms = group_decision.name, group.rebalance_timeout_ms
    group_decision.events.append(
        RebalanceBegan(name, CLASSIC, reason, len(group.members), group.facts.generation, again, timeout_ms)
    )
    complete_if_all_joined(group_decision)


def complete_if_all_joined(group_decision: GroupDecision) -> None:
    """Completes the join phase as soon as all members have joined. The initial delay still runs, since it waits for members that
    nobody knows yet."""
    group = group_decision.group
    if group.state is State.PREPARING_REBALANCE and not group.facts.initial and group.all_joined:
        complete_join_phase(group_decision)


def end_initial_delay(group_decision: GroupDecision) -> None:
    """Ends the initial delay, or extends it if new members came and the rebalance timeout allows."""
    facts, delay_ms = group_decision.group.facts, group_decision.settings.initial_delay_ms
    if facts.newcomers and facts.remaining_ms:
        _extend(group_decision, min(delay_ms, facts.remaining_ms), max(facts.remaining_ms - delay_ms, 0))
    else:
        complete_join_phase(group_decision)


def complete_join_phase(group_decision: GroupDecision) -> None:
    """Ends the join phase: members that did not join are removed, and a new generation begins."""
    group, now_ms, name = group_decision.group, group_decision.now_ms, group_decision.name
    for member in list(group.members.values()):
        if member.member_id not in group.joining and member.instance_id is None:
            group_decision.remove(member.member_id, TOO_SLOW)
    leader = _elect(group)
    if group.members and leader is None:  # absent static members may come back
        _extend(group_decision, group.rebalance_timeout_ms, 0)
        return
    facts = group.facts
    generation = facts.generation + 1 if facts.generation < 2**31 - 1 else 1
    group_decision.timers[joins_key(name)] = None
    if leader is None:
        group_decision.log(ClassicGroupChanged(name, facts.protocol_type or "", generation, None, None, now_ms, ()))
        group_decision.events.append(RebalanceEnded(name, CLASSIC, 0, generation))
        return
    due_ms = now_ms + group.rebalance_timeout_ms
    # The leader's reply goes first, since the others wait for its assignment.
    joined = sorted(group.joining, key=lambda member_id: member_id != leader)
    group_decision.put(changes.GenerationBegun(name, generation, select_protocol(group), leader, now_ms, due_ms))
    group_decision.timers[syncs_key(name)] = due_ms
    for member in group.members.values():
        group_decision.schedule_session_timeout(member)
    for member_id in joined:
        group_decision.wakes.append((join_park(name, member_id), group_decision.joined_reply(member_id)))


def select_protocol(group: Group) -> str:
    """The protocol of the new generation. Each member votes for its first choice among the protocols that all offer."""
    size = len(group.members)
    candidates = {name for name, count in group.supporters.items() if count == size}
    assert candidates, "a member that offers none of these is not let in"
    if len(candidates) == 1:
        return next(iter(candidates))
    votes = Counter(next(name for name, _ in member.protocols if name in candidates) for member in group.members.values())
    return min(votes, key=lambda name: (-votes[name], name))


def _elect(group: Group) -> str | None:
    """The new leader: the former one if it joined, else the first member that joined."""
    if group.facts.leader in group.joining:
        return group.facts.leader
    return min(group.joining, key=lambda member_id: (group.joining[member_id].order, member_id), default=None)


def _extend(group_decision: GroupDecision, by_ms: int, remaining_ms: int) -> None:
    due_ms = group_decision.now_ms + by_ms
    group_decision.put(changes.JoinsExtended(group_decision.name, due_ms, remaining_ms))
    group_decision.timers[joins_key(group_decision.name)] = due_ms
