"""The nodes that the cluster knows: all that ever registered, until an operator unregisters them."""

from collections.abc import Iterator
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState, Replica
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused


def unregister(image: ClusterImage, node_id: int) -> list[tuple[bytes, int, PartitionState]]:
    """The partition states that change before a node's record may be deleted.

    They forget in which directory the node's replicas were, so that a new machine with its id can copy them. If the node is a
    last in-sync replica, its directory is kept: an empty log must not pass for the records that it alone has.

    Raises Refused for a node that never registered, and for a live one, which would register again at once.
    """
    if node_id in image.members(STORAGE):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker ID {node_id} is alive: it has to be stopped first.")
    if node_id not in image.nodes:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
    return list(_forgotten(image, node_id))


def _forgotten(image: ClusterImage, node_id: int) -> Iterator[tuple[bytes, int, PartitionState]]:
    for topic_id, index, state in image.states():
        if any(member.node_id == node_id for member in state.isr):
            continue
        replicas = tuple(Replica(node_id, "") if replica.node_id == node_id else replica for replica in state.replicas)
        if replicas != state.replicas:
            yield topic_id, index, replace(state, replicas=replicas, partition_epoch=state.partition_epoch + 1)
