"""Controlled shutdown: the partitions that still need this node, since other nodes could take them over."""

from collections.abc import Iterator, Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, PartitionState

PartitionKey = tuple[bytes, int]


def partitions_to_hand_over(image: ClusterImage, node_id: int) -> Iterator[PartitionKey]:
    """Partitions that this node leads, or is in sync of, although another live member that stays is in sync too.

    Without another in-sync member there is nothing to wait for: such a partition is offline while its node is away.
    """
    staying = {n for n, member in image.members(STORAGE).items() if n != node_id and not member.stopping}
    for topic_id, topic in image.topics_by_id.items():
        for index, state in enumerate(image.partitions_of(topic_id)[: topic.partitions]):
            if state is not None and _is_needed(state, node_id) and _has_other_replica(state, image.members(STORAGE), staying):
                yield topic_id, index


def _is_needed(state: PartitionState, node_id: int) -> bool:
    return state.leader == node_id or any(member.node_id == node_id for member in state.isr)


def _has_other_replica(state: PartitionState, members: Mapping[int, Member], staying: set[int]) -> bool:
    return any(
        member.node_id in staying and members[member.node_id].incarnation == member.incarnation and member not in state.withdrawn
        for member in state.isr
    )
