"""The role that a partition's state in the image gives this node.

Rule (restarts): a node leads only with the incarnation that the partition state names. A state that names this node with an
older incarnation means that the controller has not yet noticed the restart: wait for it, and lead in the epoch that it opens.
"""

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Lead:
    """The leader's role. The start of `leader_epoch` goes durably into the log before the first write in it."""

    leader_epoch: int
    in_sync: tuple[InSync, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    incarnation: int
    """The incarnation of this node in which it leads."""
    lax: bool = False
    """The state records that acknowledged records may be in page caches only."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The follower's role. `leader` is -1 when there is none."""

    leader: int
    leader_epoch: int


Role = Lead | Follow


def decide_role(state: PartitionState, *, node_id: int, incarnation: int) -> Role:
    if state.leader == node_id and state.leader_incarnation == incarnation:
        replicas = tuple([replica.node_id for replica in state.replicas])
        return Lead(state.leader_epoch, state.isr, state.partition_epoch, replicas, incarnation, state.lax)
    return Follow(state.leader, state.leader_epoch)


def hosts(state: PartitionState, node_id: int) -> bool:
    """Whether a replica of this partition belongs on this node."""
    return any(replica.node_id == node_id for replica in state.replicas)


def is_dispensable(state: PartitionState, node_id: int) -> bool:
    """Whether this node's replica is not needed: another node leads, and this one is not in sync."""
    return state.leader not in (-1, node_id) and all(member.node_id != node_id for member in state.isr)


def counts_on(image: ClusterImage, node_id: int, incarnation: int, directory_id: str) -> bool:
    """Whether some ISR counts on what a former life of this node had in the directory."""
    return any(
        assigned_directory(state, node_id) in ("", directory_id)
        and any(member.node_id == node_id and member.incarnation != incarnation for member in state.isr)
        for _, _, state in image.states()
    )


def assigned_directory(state: PartitionState, node_id: int) -> str:
    """The log directory that the state names for this node's replica; "" when none is named."""
    return next((replica.log_dir_id for replica in state.replicas if replica.node_id == node_id), "")


def choose_directory(partitions_in: dict[str, int], assigned: str) -> str | None:
    """The directory for a new replica: the assigned one, else the one with the fewest partitions.

    None: no directory. A replica whose assigned directory is not here must not begin empty in another: it would pass for the one
    with the acknowledged records. Ties go to the first in the given order, so that the choice is repeatable.
    """
    if assigned:
        return assigned if assigned in partitions_in else None
    return min(partitions_in, key=lambda directory: partitions_in[directory], default=None)
