"""Reassignment of a partition's replicas (KIP-455): target replicas are added first, and the others are dropped at the end.

Nobody stores its progress: `reassignment_status` derives it from the partition's state. `reconcile` finishes a reassignment as
soon as all target replicas are in sync, in the same write as the ISR change. Every write is checked against the table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from libs.cluster.records import PartitionState, Replica
from services.controller.core.elections.leader_election import reassigned
from services.controller.core.model.replica_health import LiveNode


class ReassignmentStatus(Enum):
    NONE = "None"
    ADDING = "Adding"
    """A target replica is not in sync yet."""
    REMOVING = "Removing"
    """All target replicas are in sync. The others are dropped as soon as a target replica can lead."""


class ReassignmentStep(Enum):
    ASKED = "another target is requested"
    CAUGHT_UP = "all of the target is in sync"
    FELL_BEHIND = "a replica of the target left the ISR"
    DROPPED = "the others are dropped, with a new leader epoch"
    CANCELLED = "it is cancelled"


_NONE, _ADDING, _REMOVING = ReassignmentStatus.NONE, ReassignmentStatus.ADDING, ReassignmentStatus.REMOVING

REASSIGNMENT_TRANSITIONS: Final[dict[tuple[ReassignmentStatus, ReassignmentStep], ReassignmentStatus]] = {
    (_NONE, ReassignmentStep.ASKED): _ADDING,
    (_ADDING, ReassignmentStep.ASKED): _ADDING,
    (_ADDING, ReassignmentStep.CAUGHT_UP): _REMOVING,
    (_ADDING, ReassignmentStep.CANCELLED): _NONE,
    (_REMOVING, ReassignmentStep.ASKED): _ADDING,
    (_REMOVING, ReassignmentStep.FELL_BEHIND): _ADDING,
    (_REMOVING, ReassignmentStep.DROPPED): _NONE,
    (_REMOVING, ReassignmentStep.CANCELLED): _NONE,
}


class UncleanRevert(Exception):
    """Only replicas that a reassignment added are in sync. Without them, acknowledged records may be lost."""


def is_reassigning(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def reassignment_status(state: PartitionState) -> ReassignmentStatus:
    if not is_reassigning(state):
        return ReassignmentStatus.NONE
    return ReassignmentStatus.REMOVING if _in_sync(state, target_of(state)) else ReassignmentStatus.ADDING


def begun(state: PartitionState, target: Sequence[int], directory: Callable[[int], str]) -> PartitionState:
    """The state on its way to `target`, which replaces an earlier target. The partition epoch is left alone.

    Replicas that were added only for an earlier target are dropped at once, unless no other is in sync.
    """
    there = {replica.node_id: replica for replica in state.replicas}
    original = [node_id for node_id in there if node_id not in state.adding]
    sole = all(member.node_id in state.adding and member.node_id not in target for member in state.isr)
    kept = [node_id for node_id in state.adding if sole and any(member.node_id == node_id for member in state.isr)]
    removing = tuple(sorted(node_id for node_id in (*original, *kept) if node_id not in target))
    replicas = tuple(there.get(node_id) or Replica(node_id, directory(node_id)) for node_id in (*target, *removing))
    adding = tuple(sorted(node_id for node_id in target if node_id not in original))
    return _with_replicas(replace(state, adding=adding, removing=removing, paced=False), replicas)


def reverted(state: PartitionState) -> PartitionState:
    """The state without added replicas. Raises UncleanRevert if no other is in sync; then `without_added` is what remains."""
    before = without_added(state)
    if not before.isr:
        raise UncleanRevert
    return before


def without_added(state: PartitionState) -> PartitionState:
    """The state without added replicas. Its ISR may be empty, and then it must not be written."""
    replicas = tuple(replica for replica in state.replicas if replica.node_id not in state.adding)
    return _with_replicas(replace(state, adding=(), removing=(), paced=False), replicas)


def finished(state: PartitionState, live: Mapping[int, LiveNode]) -> PartitionState:
    """The state without removed replicas, once all target replicas are in sync and one can lead; else the same object."""
    if reassignment_status(state) is not ReassignmentStatus.REMOVING or reassigned(state, live) is None:
        return state
    return _with_replicas(replace(state, adding=(), removing=(), paced=False), tuple(_target(state)))


def reassigned_by_the_table(before: PartitionState, after: PartitionState) -> bool:
    """Whether one write may lead from one state to the other, as far as reassignments are concerned."""
    status: ReassignmentStatus | None = reassignment_status(before)
    steps = steps_between(before, after)
    for step in steps:
        status = REASSIGNMENT_TRANSITIONS.get((status, step)) if status is not None else None
    if ReassignmentStep.DROPPED in steps and not _in_sync(after, target_of(after)):
        return False
    in_a_new_epoch = after.leader_epoch > before.leader_epoch
    return status is reassignment_status(after) and (in_a_new_epoch or not drops_replicas(before, after))


def steps_between(before: PartitionState, after: PartitionState) -> list[ReassignmentStep]:
    """The steps that one write takes, in order."""
    was, now = reassignment_status(before), reassignment_status(after)
    if now is ReassignmentStatus.NONE:
        if sorted(_node_ids(after)) == sorted(n for n in _node_ids(before) if n not in before.adding):
            return [] if was is ReassignmentStatus.NONE else [ReassignmentStep.CANCELLED]
        to_the_end = [ReassignmentStep.CAUGHT_UP, ReassignmentStep.DROPPED]
        if target_of(before) != target_of(after) or was is ReassignmentStatus.NONE:
            return [ReassignmentStep.ASKED, *to_the_end]
        return to_the_end if was is ReassignmentStatus.ADDING else [ReassignmentStep.DROPPED]
    if (_node_ids(before), before.adding, before.removing) != (_node_ids(after), after.adding, after.removing):
        caught_up = now is ReassignmentStatus.REMOVING
        return [ReassignmentStep.ASKED, ReassignmentStep.CAUGHT_UP] if caught_up else [ReassignmentStep.ASKED]
    if was is now:
        return []
    return [ReassignmentStep.CAUGHT_UP if now is ReassignmentStatus.REMOVING else ReassignmentStep.FELL_BEHIND]


def drops_replicas(before: PartitionState, after: PartitionState) -> bool:
    """Whether replicas are dropped. Such a change starts a leader epoch, so that nobody counts on a dropped replica."""
    if before.replicas is after.replicas:
        return False
    left = {replica.node_id for replica in after.replicas}
    return any(replica.node_id not in left for replica in before.replicas)


def target_of(state: PartitionState) -> tuple[int, ...]:
    """Node ids of the replicas that stay."""
    return tuple(replica.node_id for replica in _target(state))


def _node_ids(state: PartitionState) -> list[int]:
    return [replica.node_id for replica in state.replicas]


def _in_sync(state: PartitionState, node_ids: Iterable[int]) -> bool:
    return {member.node_id for member in state.isr}.issuperset(node_ids)


def _target(state: PartitionState) -> list[Replica]:
    return [replica for replica in state.replicas if replica.node_id not in state.removing]


def _with_replicas(state: PartitionState, replicas: tuple[Replica, ...]) -> PartitionState:
    here = {replica.node_id for replica in replicas}
    isr = tuple(member for member in state.isr if member.node_id in here)
    withdrawn = tuple(member for member in state.withdrawn if member.node_id in here)
    return replace(state, replicas=replicas, isr=isr, withdrawn=withdrawn)
