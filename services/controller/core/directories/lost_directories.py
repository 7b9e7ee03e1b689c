"""Replicas in log directories that are lost for good: each gets another directory on its node, and is copied (KIP-858).

A directory is lost for good if its node lives without it while all configured directories work. A failed directory may come back
with its records. An ISR member keeps its lost directory, since acknowledged records may be there and nowhere else.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState, Replica
from services.controller.core.elections.leader_election import NO_LEADER
from services.controller.core.model.replica_health import LiveNode, has_directory
from services.controller.core.placement.replica_placement import Load, Node, choose_directory


class NewDirectories:
    """The directory for the next replica on each node, even as for new topics. It counts replicas only when it is called."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._load: Load | None = None

    def __call__(self, node_id: int) -> str:
        if self._load is None:
            self._load = Load.of(state for _, _, state in self._image.states())
        member = self._image.members(STORAGE)[node_id]
        return choose_directory(Node(node_id, member.rack, member.host_id, member.log_dirs), self._load)


def without_directory(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[int, ...]:
    """Nodes that have to copy their replica again: they have lost it, others are in sync, and there is a leader."""
    if state.leader == NO_LEADER:
        return ()
    in_sync = {member.node_id for member in state.isr}
    return tuple(r.node_id for r in state.replicas if r.node_id not in in_sync and _has_lost(state, r.node_id, live))


def with_new_directories(
    state: PartitionState, before: PartitionState, live: Mapping[int, LiveNode], new_directories: Callable[[int], str]
) -> PartitionState:
    """`state`, which follows on `before`, with a new directory for each replica that lost its own. The same object if there are
    none."""
    moving = without_directory(state, live)
    if not moving:
        return state
    replicas = tuple(Replica(r.node_id, new_directories(r.node_id)) if r.node_id in moving else r for r in state.replicas)
    return replace(state, replicas=replicas, partition_epoch=before.partition_epoch + 1)


def nodes_with_new_directories(before: PartitionState, after: PartitionState) -> tuple[int, ...]:
    """Nodes whose replica moves to another directory."""
    named = dict(before.replicas)
    return tuple(node_id for node_id, log_dir_id in after.replicas if named.get(node_id, log_dir_id) != log_dir_id)


def _has_lost(state: PartitionState, node_id: int, live: Mapping[int, LiveNode]) -> bool:
    node = live.get(node_id)
    return node is not None and not node.failed_dirs and bool(node.log_dirs) and not has_directory(state, node_id, node)
