"""Who leads: Kafka's four selectors, and the two elections that may lose something.

A selector gives the node that is to lead, out of the ISR and in assignment order, or None. Replicas that a reassignment is to
remove come last. Epochs are not the selectors' business: `led_by` moves a state on to its new leader.

No selector looks at a log: every ISR member has all that was acknowledged. Where that is not so, `last_resort` names who may
have to be asked, and `most_complete` takes the log that reaches furthest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from libs.cluster.records import InSync, PartitionState
from services.controller.core.standing import LiveNode, Standing, has_directory, standing

NO_LEADER: Final = -1


def assignment_order(state: PartitionState) -> list[int]:
    """Node ids: those that stay before those that are to go."""
    ids = [replica.node_id for replica in state.replicas]
    if not state.removing:
        return ids
    return [n for n in ids if n not in state.removing] + [n for n in ids if n in state.removing]


def electable(state: PartitionState, live: Mapping[int, LiveNode]) -> list[InSync]:
    """ISR members that may lead as they stand, the best first."""
    by_node = {member.node_id: member for member in state.isr}
    ordered = [by_node[node_id] for node_id in assignment_order(state) if node_id in by_node]
    stands = [(member, standing(state, member, live, synced=False)) for member in ordered]
    steady = [member for member, stand in stands if stand is Standing.STEADY]
    return steady + [member for member, stand in stands if stand is Standing.STOPPING]


def offline(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """There is no leader: the first electable."""
    return next(iter(electable(state, live)), None)


def controlled_shutdown(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader is about to stop: the first electable that is not, or None, and it stays while it lives."""
    return next((member for member in electable(state, live) if not live[member.node_id].stopping), None)


def reassigned(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader is to go: the first electable of the replicas that stay, or None while there is none."""
    return next((member for member in electable(state, live) if member.node_id not in state.removing), None)


def preferred(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The first in assignment order, or None where it may not lead now."""
    first = assignment_order(state)[0]
    return next((m for m in electable(state, live) if m.node_id == first and not live[first].stopping), None)


def leader_of(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """Who is to lead: the leader itself while it may, else as the selector for its case says."""
    leader = InSync(state.leader, state.leader_incarnation)
    if leader not in state.isr:
        return offline(state, live)
    stand = standing(state, leader, live, synced=False)
    if stand is Standing.STOPPING:
        return controlled_shutdown(state, live) or leader
    return leader if stand is Standing.STEADY else offline(state, live)


def led_by(state: PartitionState, leader: InSync | None) -> PartitionState:
    """`state` with this leader: another one, or another life of it, opens a leader epoch. The partition epoch is left alone."""
    leader = leader or InSync(NO_LEADER, 0)
    if leader == InSync(state.leader, state.leader_incarnation):
        return state
    return replace(state, leader=leader.node_id, leader_incarnation=leader.incarnation, leader_epoch=state.leader_epoch + 1)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a replica's log goes, as the node itself says."""

    latest_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Question:
    """Whose logs decide who leads. `all_of_them`: until each has answered, nobody does."""

    candidates: tuple[InSync, ...]
    all_of_them: bool


def whom_to_ask(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool, unclean: bool) -> Question | None:
    """None while there is a leader, or one may still come back with all that was acknowledged."""
    if unclean and (candidates := unclean_candidates(state, live)):
        return Question(candidates, all_of_them=False)
    if candidates := last_resort(state, live, synced=synced):
        return Question(candidates, all_of_them=True)
    return None


def last_resort(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool) -> tuple[InSync, ...]:
    """All in-sync replicas, when they live again and each of them may have lost something; () in any other case.

    While one of them is away it may be the one that lost nothing, so it is waited for.
    """
    if state.leader != NO_LEADER:
        return ()
    if any(standing(state, member, live, synced=synced) is not Standing.DOUBTFUL for member in state.isr):
        return ()
    return tuple(InSync(member.node_id, live[member.node_id].incarnation) for member in state.isr)


def unclean_candidates(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[InSync, ...]:
    """Every replica that lives and has its directory, in sync or not; () while there is a leader."""
    if state.leader != NO_LEADER:
        return ()
    found = [
        InSync(node_id, live[node_id].incarnation)
        for node_id in assignment_order(state)
        if node_id in live and has_directory(state, node_id, live[node_id])
    ]
    return tuple(candidate for candidate in found if candidate not in state.withdrawn)


def elect_by_logs(state: PartitionState, question: Question, reaches: Mapping[InSync, Reach]) -> PartitionState | None:
    """With the replica as leader whose log reaches furthest, or None while that cannot be told."""
    known = {candidate: reaches[candidate] for candidate in question.candidates if candidate in reaches}
    if question.all_of_them and len(known) < len(question.candidates):
        return None
    best = most_complete(state, known)
    return elected_at_a_loss(state, best) if best is not None else None


def most_complete(state: PartitionState, reaches: Mapping[InSync, Reach]) -> InSync | None:
    """The highest (epoch, end offset); among equals assignment order decides."""
    order = assignment_order(state)
    candidates = sorted(reaches, key=lambda candidate: order.index(candidate.node_id))
    return max(candidates, key=lambda c: (reaches[c].latest_epoch, reaches[c].end_offset), default=None)


def elected_at_a_loss(state: PartitionState, leader: InSync) -> PartitionState:
    """`leader` alone is in sync now, and what it does not have is lost."""
    led = led_by(state, leader)
    return replace(led, isr=(leader,), recovering=True, withdrawn=(), partition_epoch=state.partition_epoch + 1)
