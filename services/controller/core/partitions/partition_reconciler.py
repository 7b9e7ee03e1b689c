"""The next state of a partition when its nodes come, restart, stop or die.

Level-triggered: `reconcile` gets the live nodes, not the events. So it gives the right state however many events were missed, and
the same state when it is called again.

A node leads only with the incarnation that the partition state names, so each restart costs an election and a new epoch. The ISR
never becomes empty. Its last members stay in it while they are dead, since they alone have all acknowledged records.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.elections.leader_election import NO_LEADER, leader_of, led_by
from services.controller.core.model.replica_health import LiveNode, ReplicaHealth, health_of, live_nodes, lost_directories
from services.controller.core.reassignment.reassignment import drops_replicas, finished, is_reassigning

__all__ = ["NO_LEADER", "LiveNode", "SteadyPartitions", "live_nodes", "lost_directories", "reconcile", "shrinks_to", "with_lax"]


def reconcile(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool = True) -> PartitionState:
    """`state` as it should be while exactly `live` live; the same object if nothing changes.

    `synced`: the topic acknowledges only synced records, so that a restart loses no acknowledged ones.
    """
    isr = _isr(state, live, synced=synced)
    withdrawn = _withdrawn(state, isr, live)
    known = state if isr == state.isr and withdrawn == state.withdrawn else replace(state, isr=isr, withdrawn=withdrawn)
    known = finished(known, live)
    reconciled = led_by(known, leader_of(known, live))
    if reconciled.leader_epoch == state.leader_epoch and drops_replicas(state, reconciled):
        reconciled = replace(reconciled, leader_epoch=state.leader_epoch + 1)
    return state if reconciled is state else replace(reconciled, partition_epoch=state.partition_epoch + 1)


def shrinks_to(state: PartitionState, isr: Collection[InSync], suspected: Collection[int]) -> bool:
    """Whether members would leave the ISR so that only `suspected` ones stay. If those are dead, nobody else could lead."""
    stays = {member.node_id for member in isr}
    return stays.issubset(suspected) and not stays.issuperset(member.node_id for member in state.isr)


def with_lax(state: PartitionState, before: PartitionState, *, synced: bool) -> PartitionState:
    """`state`, which follows on `before`. It is `lax` from now on if its topic is not `synced`. A leader's proposal ends that."""
    if synced or state.lax:
        return state
    return replace(state, lax=True, partition_epoch=before.partition_epoch + 1)


class SteadyPartitions:
    """A quick check that `reconcile` would change nothing, which holds for almost all of 10,000 partitions."""

    __slots__ = ("_directories", "_live", "_steady")

    def __init__(self, live: Mapping[int, LiveNode]) -> None:
        self._live = live
        self._steady = {
            InSync(node_id, node.incarnation) for node_id, node in live.items() if not node.stopping and node.is_reached_by_all
        }
        self._directories = {Replica(node_id, directory) for node_id, node in live.items() for directory in ("", *node.log_dirs)}

    def __call__(self, state: PartitionState) -> bool:
        """Whether nothing changes. False: `reconcile` has to decide."""
        if (
            state.withdrawn
            or is_reassigning(state)
            or (state.leader, state.leader_incarnation) not in state.isr
            or not self._steady.issuperset(state.isr)
        ):
            return False
        return all(replica in self._directories or replica.node_id not in self._live for replica in state.replicas)


def _isr(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool) -> tuple[InSync, ...]:
    healths = {member: health_of(state, member, live, synced=synced) for member in state.isr}
    for health in (ReplicaHealth.STEADY, ReplicaHealth.STOPPING):
        if members := tuple(member for member in state.isr if healths[member] is health):
            return members
    # No member is left that was in sync and has not restarted since. A member with all that it acknowledged has all that any
    # acknowledged.
    intact = [m for m in state.isr if healths[m] is ReplicaHealth.INTACT]
    staying = [m for m in intact if not live[m.node_id].stopping]
    return tuple(InSync(m.node_id, live[m.node_id].incarnation) for m in staying or intact) or state.isr


def _withdrawn(state: PartitionState, isr: tuple[InSync, ...], live: Mapping[int, LiveNode]) -> tuple[InSync, ...]:
    """Withdrawn members of the ISR. A former incarnation's withdrawal says nothing about the next one, which withdraws again if
    need be."""
    if not state.withdrawn:
        return ()
    members = {member.node_id for member in isr}
    past = {n for n, incarnation in state.withdrawn if n in live and live[n].incarnation != incarnation}
    return tuple(w for w in state.withdrawn if w.node_id in members and w.node_id not in past)
