"""The health of replicas while exactly the given nodes live. Only this file compares a node's incarnation with a partition's
state."""

from collections.abc import Mapping
from enum import Enum

from libs.cluster.records import InSync, Member, PartitionState
from libs.lean_dataclass import dataclass
from services.controller.core.model.cuts import NO_CUTS, Cuts


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A registered storage process: the node's incarnation, and the log directories that it could open.

    `survived_from`: nothing that the node wrote since that incarnation was lost; 0: only synced records are sure. `stopping`: it
    asks to move its leaderships away. `failed_dirs`: the number of configured directories that do not work. `went_back`: those of
    `log_dirs` that were restored from older snapshots. `callers_cut` and `peers_cut`: see `Cuts`.
    """

    incarnation: int
    log_dirs: frozenset[str]
    survived_from: int = 0
    stopping: bool = False
    failed_dirs: int = 0
    went_back: frozenset[str] = frozenset()
    callers_cut: int = 0
    peers_cut: frozenset[int] = frozenset()

    @property
    def is_reached_by_all(self) -> bool:
        return not self.callers_cut and not self.peers_cut


def live_nodes(members: Mapping[int, Member], cuts: Cuts = NO_CUTS) -> dict[int, LiveNode]:
    return {
        node_id: LiveNode(
            m.incarnation,
            frozenset(m.log_dirs),
            m.survived_from,
            m.stopping,
            m.failed_dirs,
            frozenset(m.went_back),
            cuts.callers.get(node_id, 0),
            cuts.peers.get(node_id, frozenset()),
        )
        for node_id, m in members.items()
    }


class ReplicaHealth(Enum):
    """The health of an ISR member. Only the first two are in sync without doubt."""

    STEADY = "steady"
    STOPPING = "stopping"
    """Steady, but about to stop."""
    INTACT = "intact"
    """It restarted and has all that it ever acknowledged. It may lack later records."""
    DOUBTFUL = "doubtful"
    """It restarted and may have lost acknowledged records: those that were not synced, or all since its volume's snapshot."""
    DAMAGED = "damaged"
    """It lives, and reported that its log cannot be read."""
    DISPLACED = "displaced"
    """It lives without the directory that held the partition."""
    DEAD = "dead"


def health_of(state: PartitionState, member: InSync, live: Mapping[int, LiveNode], *, synced: bool) -> ReplicaHealth:
    node = live.get(member.node_id)
    if node is None:
        return ReplicaHealth.DEAD
    if not has_directory(state, member.node_id, node):
        return ReplicaHealth.DISPLACED
    if InSync(member.node_id, node.incarnation) in state.withdrawn:
        return ReplicaHealth.DAMAGED
    if node.incarnation == member.incarnation:
        return ReplicaHealth.STOPPING if node.stopping else ReplicaHealth.STEADY
    if went_back(state, member.node_id, node):
        return ReplicaHealth.DOUBTFUL
    # A late registration may be of an earlier incarnation. What that one kept says nothing about the member's.
    if (synced and not state.lax) or 0 < node.survived_from <= member.incarnation < node.incarnation:
        return ReplicaHealth.INTACT
    return ReplicaHealth.DOUBTFUL


def has_directory(state: PartitionState, node_id: int, node: LiveNode) -> bool:
    """Whether a node that hosts the partition has the partition's directory, or has yet to choose one."""
    for replica in state.replicas:
        if replica.node_id == node_id:
            return not replica.log_dir_id or replica.log_dir_id in node.log_dirs
    return False


def went_back(state: PartitionState, node_id: int, node: LiveNode) -> bool:
    """Whether the replica of a live node may lie in a directory that went back."""
    directory = next((replica.log_dir_id for replica in state.replicas if replica.node_id == node_id), "")
    return bool(node.went_back) and directory in ("", *node.went_back)


def may_join(state: PartitionState, member: InSync, live: Mapping[int, LiveNode]) -> bool:
    """Whether the node may join the ISR in the incarnation in which its leader found it in sync."""
    return health_of(state, member, live, synced=False) is ReplicaHealth.STEADY


def lost_directories(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[int, ...]:
    """In-sync nodes that live without the directory of this partition, so that its records are gone.

    Without another in-sync replica the partition stays leaderless. If such a node led, it would silently serve an empty log in
    place of acknowledged records. An operator has to bring the directory back, elect another replica, or delete the topic.
    """
    return tuple(m.node_id for m in state.isr if m.node_id in live and not has_directory(state, m.node_id, live[m.node_id]))
