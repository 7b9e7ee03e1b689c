"""A partition's replicas move to other nodes (KIP-455): those of the target are added first, the others dropped at the end.

Nobody keeps how far one has come: `reassignment_status` reads it off the partition's state. `settle` finishes a reassignment as
soon as all of the target is in sync, in the same write as the ISR that made it so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.elections import reassigned
from services.controller.core.standing import LiveNode, Standing, standing


class ReassignmentStatus(Enum):
    NONE = "None"
    ADDING = "Adding"
    """A replica of the target is not in sync yet."""
    REMOVING = "Removing"
    """All of the target is in sync, and one of it can lead once the others are gone."""


class ReassignmentStep(Enum):
    ASKED = "another target is asked for"
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
    """Only replicas that a reassignment added are in sync: without them, what was acknowledged since may be lost."""


def is_reassigning(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def reassignment_status(state: PartitionState, live: Mapping[int, LiveNode]) -> ReassignmentStatus:
    if not is_reassigning(state):
        return ReassignmentStatus.NONE
    in_sync = {member.node_id for member in state.isr}
    if any(replica.node_id not in in_sync for replica in _target(state)):
        return ReassignmentStatus.ADDING
    return ReassignmentStatus.ADDING if reassigned(state, live) is None else ReassignmentStatus.REMOVING


def begun(state: PartitionState, target: Sequence[int], directory: Callable[[int], str]) -> PartitionState:
    """On its way to `target`, which replaces the target that it may have had. The partition epoch is left alone.

    Replicas that were added for a former target only are dropped at once, unless nobody else is in sync.
    """
    there = {replica.node_id: replica for replica in state.replicas}
    original = [node_id for node_id in there if node_id not in state.adding]
    sole = all(member.node_id in state.adding and member.node_id not in target for member in state.isr)
    kept = [node_id for node_id in state.adding if sole and any(member.node_id == node_id for member in state.isr)]
    removing = tuple(node_id for node_id in (*original, *kept) if node_id not in target)
    replicas = tuple(there.get(node_id) or Replica(node_id, directory(node_id)) for node_id in (*target, *removing))
    adding = tuple(node_id for node_id in target if node_id not in original)
    return _with_replicas(replace(state, adding=adding, removing=removing), replicas)


def reverted(state: PartitionState, live: Mapping[int, LiveNode], *, unclean: bool) -> PartitionState:
    """Without what was added. Raises UncleanRevert where nobody else is in sync, unless `unclean` allows the loss."""
    replicas = tuple(replica for replica in state.replicas if replica.node_id not in state.adding)
    before = _with_replicas(replace(state, adding=(), removing=()), replicas)
    if before.isr:
        return before
    if not unclean:
        raise UncleanRevert
    candidates = [InSync(r.node_id, live[r.node_id].incarnation) for r in replicas if r.node_id in live]
    for candidate in candidates:
        if standing(before, candidate, live, synced=False) in (Standing.STEADY, Standing.STOPPING):
            return replace(before, isr=(candidate,), recovering=True, withdrawn=())
    raise UncleanRevert


def finished(state: PartitionState, live: Mapping[int, LiveNode]) -> PartitionState:
    """Without the replicas that are to go, once all of the target is in sync and one of it can lead; else the same object."""
    if reassignment_status(state, live) is not ReassignmentStatus.REMOVING:
        return state
    return _with_replicas(replace(state, adding=(), removing=()), tuple(_target(state)))


def drops_replicas(before: PartitionState, after: PartitionState) -> bool:
    """Such a change opens a leader epoch, so that nobody counts on a replica that is no longer one."""
    if before.replicas is after.replicas:
        return False
    left = {replica.node_id for replica in after.replicas}
    return any(replica.node_id not in left for replica in before.replicas)


def _target(state: PartitionState) -> list[Replica]:
    return [replica for replica in state.replicas if replica.node_id not in state.removing]


def _with_replicas(state: PartitionState, replicas: tuple[Replica, ...]) -> PartitionState:
    here = {replica.node_id for replica in replicas}
    isr = tuple(member for member in state.isr if member.node_id in here)
    withdrawn = tuple(member for member in state.withdrawn if member.node_id in here)
    return replace(state, replicas=replicas, isr=isr, withdrawn=withdrawn)
