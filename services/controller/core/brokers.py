"""What becomes of a partition when its nodes come, restart, stop or go.

Level-triggered: `settle` is told who is alive now, not what happened, so that it gives the right answer however many events
were missed, and the same answer when asked twice.

A node leads only with the incarnation that the partition state names, so each restart costs an election and a new epoch. The
ISR never becomes empty: its last members stay in it while they are dead, since they alone hold all that was acknowledged.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.elections import NO_LEADER, leader_of, led_by
from services.controller.core.reassignment import drops_replicas, finished, is_reassigning
from services.controller.core.standing import LiveNode, Standing, live_nodes, lost_directories, standing

__all__ = ["NO_LEADER", "AtRest", "LiveNode", "live_nodes", "lost_directories", "marked", "settle", "shrinks_to"]


def settle(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool = True) -> PartitionState:
    """`state` as it should be with exactly `live` alive; the same object when nothing changes.

    `synced`: the topic acknowledges only what is on disk, so that a restart loses nothing that was acknowledged.
    """
    isr = _isr(state, live, synced=synced)
    withdrawn = _withdrawn(state, isr, live)
    known = state if isr == state.isr and withdrawn == state.withdrawn else replace(state, isr=isr, withdrawn=withdrawn)
    known = finished(known, live)
    settled = led_by(known, leader_of(known, live))
    if settled.leader_epoch == state.leader_epoch and drops_replicas(state, settled):
        settled = replace(settled, leader_epoch=state.leader_epoch + 1)
    return state if settled is state else replace(settled, partition_epoch=state.partition_epoch + 1)


def shrinks_to(state: PartitionState, isr: Collection[InSync], doubted: Collection[int]) -> bool:
    """Whether members would leave the ISR, and only `doubted` ones stay. If those are dead too, they alone could lead again."""
    stays = {member.node_id for member in isr}
    return stays.issubset(doubted) and not stays.issuperset(member.node_id for member in state.isr)


def marked(state: PartitionState, before: PartitionState, *, synced: bool) -> PartitionState:
    """`state`, which follows on `before`; `lax` from now on if its topic is not `synced`. A leader says when that is over."""
    if synced or state.lax:
        return state
    return replace(state, lax=True, partition_epoch=before.partition_epoch + 1)


class AtRest:
    """Tells at a glance that `settle` would change nothing, which is so for almost all of 10,000 partitions."""

    __slots__ = ("_live", "_places", "_steady")

    def __init__(self, live: Mapping[int, LiveNode]) -> None:
        self._live = live
        self._steady = {InSync(node_id, node.incarnation) for node_id, node in live.items() if not node.stopping}
        self._places = {Replica(node_id, directory) for node_id, node in live.items() for directory in ("", *node.log_dirs)}

    def __call__(self, state: PartitionState) -> bool:
        """False where it takes a closer look."""
        if (
            state.withdrawn
            or is_reassigning(state)
            or (state.leader, state.leader_incarnation) not in state.isr
            or not self._steady.issuperset(state.isr)
        ):
            return False
        return all(replica in self._places or replica.node_id not in self._live for replica in state.replicas)


def _isr(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool) -> tuple[InSync, ...]:
    stands = {member: standing(state, member, live, synced=synced) for member in state.isr}
    for wanted in (Standing.STEADY, Standing.STOPPING):
        if found := tuple(member for member in state.isr if stands[member] is wanted):
            return found
    # Nobody is left who was in sync and has not restarted since. Who has all that it acknowledged has all that anyone did.
    intact = [m for m in state.isr if stands[m] is Standing.INTACT]
    staying = [m for m in intact if not live[m.node_id].stopping]
    return tuple(InSync(m.node_id, live[m.node_id].incarnation) for m in staying or intact) or state.isr


def _withdrawn(state: PartitionState, isr: tuple[InSync, ...], live: Mapping[int, LiveNode]) -> tuple[InSync, ...]:
    """Of the ISR. A life that is over says nothing of the next one, which tells again what is damaged."""
    if not state.withdrawn:
        return ()
    members = {member.node_id for member in isr}
    past = {n for n, incarnation in state.withdrawn if n in live and live[n].incarnation != incarnation}
    return tuple(w for w in state.withdrawn if w.node_id in members and w.node_id not in past)
