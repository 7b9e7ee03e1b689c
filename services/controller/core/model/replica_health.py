"""How replicas stand with exactly these nodes alive: the one place where a node's life is compared with what a state names."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from libs.cluster.records import InSync, Member, PartitionState


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A registered storage process: which life of the node it is, and the log directories that it could open.

    `survived_from`: nothing that the node wrote since that incarnation was lost; 0: only what was synced is sure.
    `stopping`: it asks for its leaderships to be moved. `failed_dirs`: of its configured directories, so many do not work.
    """

    incarnation: int
    log_dirs: frozenset[str]
    survived_from: int = 0
    stopping: bool = False
    failed_dirs: int = 0


def live_nodes(members: Mapping[int, Member]) -> dict[int, LiveNode]:
    return {
        node_id: LiveNode(m.incarnation, frozenset(m.log_dirs), m.survived_from, m.stopping, m.failed_dirs)
        for node_id, m in members.items()
    }


class Standing(Enum):
    """Of an ISR member. Only the first two are in sync without a doubt."""

    STEADY = "steady"
    STOPPING = "stopping"
    """Steady, but it will be gone soon."""
    INTACT = "intact"
    """It started anew, and has all that it ever acknowledged. It may have missed what came later."""
    DOUBTFUL = "doubtful"
    """It started anew, and may have lost what was acknowledged and not synced."""
    DAMAGED = "damaged"
    """It lives, and said that its log cannot be read."""
    DISPLACED = "displaced"
    """It lives without the directory that held the partition."""
    DEAD = "dead"


def standing(state: PartitionState, member: InSync, live: Mapping[int, LiveNode], *, synced: bool) -> Standing:
    node = live.get(member.node_id)
    if node is None:
        return Standing.DEAD
    if not has_directory(state, member.node_id, node):
        return Standing.DISPLACED
    if InSync(member.node_id, node.incarnation) in state.withdrawn:
        return Standing.DAMAGED
    if node.incarnation == member.incarnation:
        return Standing.STOPPING if node.stopping else Standing.STEADY
    # A registration that landed late may be of an earlier life: what that one kept says nothing of the member's.
    if (synced and not state.lax) or 0 < node.survived_from <= member.incarnation < node.incarnation:
        return Standing.INTACT
    return Standing.DOUBTFUL


def has_directory(state: PartitionState, node_id: int, node: LiveNode) -> bool:
    """Whether the node, if it hosts the partition, has the directory that it lies in, or has yet to choose one."""
    for replica in state.replicas:
        if replica.node_id == node_id:
            return not replica.log_dir_id or replica.log_dir_id in node.log_dirs
    return False


def may_join(state: PartitionState, member: InSync, live: Mapping[int, LiveNode]) -> bool:
    """Whether the node may be taken into the ISR in the incarnation in which its leader found it in sync."""
    return standing(state, member, live, synced=False) is Standing.STEADY


def lost_directories(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[int, ...]:
    """In-sync nodes that are alive without the directory that holds this partition: their data is gone.

    With no other in-sync replica the partition stays leaderless. Electing such a node would silently serve an empty log in
    place of acknowledged records; an operator must bring the directory back, elect another replica, or delete the topic.
    """
    return tuple(m.node_id for m in state.isr if m.node_id in live and not has_directory(state, m.node_id, live[m.node_id]))
