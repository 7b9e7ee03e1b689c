"""The replicas of this node that are not in sync. While there are some, no other storage node should be stopped."""

from collections.abc import Iterator

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState


def lagging_replicas(image: ClusterImage, node_id: int, incarnation: int) -> Iterator[str]:
    """Partitions as `topic-index`, whose ISR lacks this incarnation of a node that holds a replica.

    A replica that a reassignment adds does not count: the partition has its other replicas until that one is in sync.
    """
    this_node = InSync(node_id, incarnation)
    for topic_id, topic in image.topics_by_id.items():
        for index, state in enumerate(image.partitions_of(topic_id)[: topic.partitions]):
            if state is not None and _is_relied_on(state, node_id) and this_node not in state.isr:
                yield f"{topic.name}-{index}"


def _is_relied_on(state: PartitionState, node_id: int) -> bool:
    return node_id not in state.adding and any(replica.node_id == node_id for replica in state.replicas)
