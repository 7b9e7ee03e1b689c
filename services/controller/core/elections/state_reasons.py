"""Why a partition's state changes, in words for the log. Pure."""

from collections.abc import Mapping

from libs.cluster.records import InSync, PartitionState
from services.controller.core.elections.leader_election import NO_LEADER, processes_cut_off
from services.controller.core.model.replica_health import LiveNode, ReplicaHealth, health_of

_CONDITIONS = {
    ReplicaHealth.STOPPING: "stops",
    ReplicaHealth.INTACT: "has restarted",
    ReplicaHealth.DOUBTFUL: "has restarted, and may lack records",
    ReplicaHealth.DAMAGED: "cannot read its log",
    ReplicaHealth.DISPLACED: "lacks the log directory",
    ReplicaHealth.DEAD: "is dead",
}


def healths(state: PartitionState, live: Mapping[int, LiveNode]) -> dict[int, str]:
    """The condition of each member of the ISR."""
    return {member.node_id: health_of(state, member, live, synced=False).value for member in state.isr}


def why_changed(before: PartitionState, after: PartitionState, live: Mapping[int, LiveNode]) -> str:
    """`live` are the nodes that the decision saw."""
    reasons = [_why_elected(before, live)] if after.leader_epoch != before.leader_epoch else []
    left = [member for member in before.isr if member not in after.isr]
    reasons += [f"node {member.node_id} {condition}" for member in left if (condition := _condition(before, member, live))]
    joined = {member.node_id for member in after.isr} - {member.node_id for member in before.isr}
    reasons += [f"node {node_id} is in sync" for node_id in sorted(joined)]
    if after.replicas != before.replicas:
        reasons.append("its replicas change")
    if after.withdrawn != before.withdrawn:
        reasons.append("a replica is withdrawn or taken back")
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _why_elected(before: PartitionState, live: Mapping[int, LiveNode]) -> str:
    if before.leader == NO_LEADER:
        return "it had no leader"
    if condition := _condition(before, InSync(before.leader, before.leader_incarnation), live):
        return f"node {before.leader} {condition}"
    if before.leader in before.removing:
        return f"node {before.leader} is removed from the replicas"
    if processes_cut_off(before, before.leader, live):
        return f"some processes do not reach node {before.leader}"
    return ""


def _condition(state: PartitionState, member: InSync, live: Mapping[int, LiveNode]) -> str:
    """What is wrong with a member. Empty: nothing."""
    return _CONDITIONS.get(health_of(state, member, live, synced=False), "")
