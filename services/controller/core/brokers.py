"""What becomes of a partition when its nodes come, restart or go.

Level-triggered: `settle` is told who is alive now, not what happened, so that it gives the right answer however many events
were missed, and the same answer when asked twice.

A node leads only with the incarnation that the partition state names, so each restart costs an election and a new epoch. The
ISR never becomes empty: its last members stay in it while they are dead, since they alone hold all that was acknowledged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from libs.cluster.records import InSync, Member, PartitionState

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A registered storage process: which life of the node it is, and the log directories that it could open."""

    incarnation: int
    log_dirs: frozenset[str]


def live_nodes(members: Mapping[int, Member]) -> dict[int, LiveNode]:
    return {node_id: LiveNode(member.incarnation, frozenset(member.log_dirs)) for node_id, member in members.items()}


def settle(state: PartitionState, live: Mapping[int, LiveNode]) -> PartitionState:
    """`state` as it should be with exactly `live` alive; the same object when nothing changes."""
    isr = _settled_isr(state, live)
    leader, incarnation = _leader(state, isr, live)
    if (leader, incarnation, isr) == (state.leader, state.leader_incarnation, state.isr):
        return state
    led_anew = (leader, incarnation) != (state.leader, state.leader_incarnation)
    return replace(
        state,
        leader=leader,
        leader_incarnation=incarnation,
        leader_epoch=state.leader_epoch + led_anew,
        partition_epoch=state.partition_epoch + 1,
        isr=isr,
    )


def lost_directories(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[int, ...]:
    """In-sync nodes that are alive without the directory that holds this partition: their data is gone.

    With no other in-sync replica the partition stays leaderless. Electing such a node would silently serve an empty log in
    place of acknowledged records; an operator must bring the directory back, or delete the topic.
    """
    return tuple(m.node_id for m in state.isr if m.node_id in live and not _has_directory(state, m.node_id, live))


def _settled_isr(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[InSync, ...]:
    intact = [m for m in state.isr if m.node_id in live and _has_directory(state, m.node_id, live)]
    steady = tuple(m for m in intact if live[m.node_id].incarnation == m.incarnation)
    if steady:
        return steady
    # Nobody is left who was in sync and has not restarted since. What a restarted node has on disk is as much as anyone has:
    # take the first in assignment order; the others catch up with it and return to the ISR.
    restarted = {m.node_id for m in intact}
    for replica in state.replicas:
        if replica.node_id in restarted:
            return (InSync(replica.node_id, live[replica.node_id].incarnation),)
    return state.isr


def _leader(state: PartitionState, isr: tuple[InSync, ...], live: Mapping[int, LiveNode]) -> tuple[int, int]:
    ready = {
        member.node_id: member.incarnation
        for member in isr
        if member.node_id in live
        and live[member.node_id].incarnation == member.incarnation
        and _has_directory(state, member.node_id, live)
    }
    if ready.get(state.leader) == state.leader_incarnation and state.leader in ready:
        return state.leader, state.leader_incarnation
    for replica in state.replicas:
        if replica.node_id in ready:
            return replica.node_id, ready[replica.node_id]
    return NO_LEADER, 0


def _has_directory(state: PartitionState, node_id: int, live: Mapping[int, LiveNode]) -> bool:
    for replica in state.replicas:
        if replica.node_id == node_id:
            return not replica.log_dir_id or replica.log_dir_id in live[node_id].log_dirs
    return False
