"""Replicas whose log directories are gone for good get another one on their node, where they are copied anew (as in KIP-858).

A directory is gone for good when the node lives without it, and all directories that it was configured with work. What only
fails may come back with all that is in it. Where somebody counts on the replica nothing is decided here: a member of the ISR
stays without a directory, for what was acknowledged may be in the lost one and nowhere else.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState, Replica
from services.controller.core.elections import NO_LEADER
from services.controller.core.placement import Load, Node, choose_directory
from services.controller.core.standing import LiveNode, has_directory


class NewPlaces:
    """By node: the directory for its next replica. Even, as for new topics. Counts only if it is asked."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._load: Load | None = None

    def __call__(self, node_id: int) -> str:
        if self._load is None:
            self._load = Load.of(state for _, _, state in self._image.states())
        member = self._image.members(STORAGE)[node_id]
        return choose_directory(Node(node_id, member.rack, member.host_id, member.log_dirs), self._load)


def homeless(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[int, ...]:
    """Nodes that are to make their replica anew: they have lost it, and others lead and are in sync."""
    if state.leader == NO_LEADER:
        return ()
    in_sync = {member.node_id for member in state.isr}
    return tuple(r.node_id for r in state.replicas if r.node_id not in in_sync and _has_lost(state, r.node_id, live))


def given_new_places(
    state: PartitionState, before: PartitionState, live: Mapping[int, LiveNode], places: Callable[[int], str]
) -> PartitionState:
    """`state`, which follows on `before`, with a directory for each of the homeless; the same object when there are none."""
    moving = homeless(state, live)
    if not moving:
        return state
    replicas = tuple(Replica(r.node_id, places(r.node_id)) if r.node_id in moving else r for r in state.replicas)
    return replace(state, replicas=replicas, partition_epoch=before.partition_epoch + 1)


def with_new_places(before: PartitionState, after: PartitionState) -> tuple[int, ...]:
    """Nodes that are to have their replica in another directory."""
    named = dict(before.replicas)
    return tuple(node_id for node_id, log_dir_id in after.replicas if named.get(node_id, log_dir_id) != log_dir_id)


def _has_lost(state: PartitionState, node_id: int, live: Mapping[int, LiveNode]) -> bool:
    node = live.get(node_id)
    return node is not None and not node.failed_dirs and bool(node.log_dirs) and not has_directory(state, node_id, node)
