"""The log directory of each replica, as storage nodes report it."""

from collections.abc import Iterator
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState, Replica
from libs.rpc.contracts.controller import AssignDirs
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused


def assign_dirs(image: ClusterImage, request: AssignDirs) -> list[tuple[bytes, int, PartitionState]]:
    """The partition states that change. Placements that no longer apply are ignored, as the image shows.

    Raises Refused with STALE_BROKER_EPOCH if the caller is not the registered incarnation.
    """
    member = image.members(STORAGE).get(request.node_id)
    if member is None or member.incarnation != request.incarnation:
        raise Refused(
            ErrorCode.STALE_BROKER_EPOCH, f"node {request.node_id} is not registered with incarnation {request.incarnation}"
        )
    present = frozenset(member.log_dirs)
    return list(_changed(image, request, present))


def _changed(image: ClusterImage, request: AssignDirs, present: frozenset[str]) -> Iterator[tuple[bytes, int, PartitionState]]:
    verified = frozenset(request.verified)
    last = {(topic_id, index): log_dir_id for topic_id, index, log_dir_id in request.placements}
    for (topic_id, index), log_dir_id in last.items():
        state = image.partition(topic_id, index) if topic_id in image.topics_by_id else None
        if state is None or log_dir_id not in present:
            continue
        known = present if (topic_id, index) not in verified else None
        replicas = tuple(_moved(replica, request.node_id, log_dir_id, known) for replica in state.replicas)
        if replicas != state.replicas:
            yield topic_id, index, replace(state, replicas=replicas, partition_epoch=state.partition_epoch + 1)


def _moved(replica: Replica, node_id: int, log_dir_id: str, present: frozenset[str] | None) -> Replica:
    """The replica with its new directory. `present` are the node's directories. None: the node has verified that the log is good,
    whatever directory the state names."""
    if replica.node_id != node_id:
        return replica
    if present is not None and replica.log_dir_id and replica.log_dir_id not in present:
        # The directory with the records is gone, so the node has a new, empty log now. If it were recorded as this replica's
        # directory, the empty log could lead.
        return replica
    return Replica(node_id, log_dir_id)
