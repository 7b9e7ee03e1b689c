"""How a rebalance begins, when all have joined, and what a new generation is made of."""

from collections import Counter

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic.draft import Draft, join_park, joins_key, syncs_key
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.states import TRANSITIONS, Fact, State
from services.group_coordinator.core.happened import CLASSIC, TOO_SLOW, RebalanceBegan, RebalanceEnded
from services.group_coordinator.core.records import ClassicGroupChanged


def rebalance(draft: Draft, reason: str) -> None:
    """Begins one, or goes on with that which is under way."""
    if (draft.group.state, Fact.REBALANCES) in TRANSITIONS:
        begin(draft, reason)
    else:
        go_on(draft)


def begin(draft: Draft, reason: str) -> None:
    group, now_ms = draft.group, draft.now_ms
    for member_id in group.syncing:
        draft.wake_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.heard_of(group.members[member_id])
    initial, again = group.state is State.EMPTY, group.state is State.COMPLETING_REBALANCE
    remaining_ms = 0
    if initial:
        due_ms = now_ms + draft.settings.initial_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - draft.settings.initial_delay_ms, 0)
    else:
        due_ms = now_ms + group.rebalance_timeout_ms
    draft.timers[syncs_key(draft.name)] = None
    draft.timers[joins_key(draft.name)] = due_ms
    draft.put(changes.RebalanceBegun(draft.name, reason, now_ms, due_ms, remaining_ms))
    draft.happened.append(RebalanceBegan(draft.name, CLASSIC, reason, len(group.members), group.facts.generation, again))
    go_on(draft)


def go_on(draft: Draft) -> None:
    """Does not wait for the timeout when nobody is missing. The initial delay is for those of whom nobody knows yet."""
    group = draft.group
    if group.state is State.PREPARING_REBALANCE and not group.facts.initial and group.all_joined:
        complete(draft)


def delay_over(draft: Draft) -> None:
    """Of a rebalance that began with nobody: once more if others came, as long as the rebalance timeout allows."""
    facts, delay_ms = draft.group.facts, draft.settings.initial_delay_ms
    if facts.newcomers and facts.remaining_ms:
        _extend(draft, min(delay_ms, facts.remaining_ms), max(facts.remaining_ms - delay_ms, 0))
    else:
        complete(draft)


def complete(draft: Draft) -> None:
    """Nobody is waited for any longer."""
    group, now_ms, name = draft.group, draft.now_ms, draft.name
    for member in list(group.members.values()):
        if member.member_id not in group.joining and member.instance_id is None:
            draft.remove(member.member_id, TOO_SLOW)
    leader = _elect(group)
    if group.members and leader is None:  # static members that are away may come back
        _extend(draft, group.rebalance_timeout_ms, 0)
        return
    facts = group.facts
    generation = facts.generation + 1 if facts.generation < 2**31 - 1 else 1
    draft.timers[joins_key(name)] = None
    if leader is None:
        draft.log(ClassicGroupChanged(name, facts.protocol_type or "", generation, None, None, now_ms, ()))
        draft.happened.append(RebalanceEnded(name, CLASSIC, 0, generation))
        return
    due_ms = now_ms + group.rebalance_timeout_ms
    # The leader is told first: all others wait for what it answers.
    joined = sorted(group.joining, key=lambda member_id: member_id != leader)
    draft.put(changes.GenerationBegun(name, generation, select_protocol(group), leader, now_ms, due_ms))
    draft.timers[syncs_key(name)] = due_ms
    for member in group.members.values():
        draft.heard_of(member)
    for member_id in joined:
        draft.wakes.append((join_park(name, member_id), draft.joined_reply(member_id)))


def select_protocol(group: Group) -> str:
    """Each member votes for the one that it wants most of those that all offer."""
    size = len(group.members)
    candidates = {name for name, count in group.supporters.items() if count == size}
    assert candidates, "a member that offers none of these is not let in"
    if len(candidates) == 1:
        return next(iter(candidates))
    votes = Counter(next(name for name, _ in member.protocols if name in candidates) for member in group.members.values())
    return min(votes, key=lambda name: (-votes[name], name))


def _elect(group: Group) -> str | None:
    """The former leader if it joined, else who joined first."""
    if group.facts.leader in group.joining:
        return group.facts.leader
    return min(group.joining, key=lambda member_id: (group.joining[member_id].order, member_id), default=None)


def _extend(draft: Draft, by_ms: int, remaining_ms: int) -> None:
    due_ms = draft.now_ms + by_ms
    draft.put(changes.JoinsExtended(draft.name, due_ms, remaining_ms))
    draft.timers[joins_key(draft.name)] = due_ms
