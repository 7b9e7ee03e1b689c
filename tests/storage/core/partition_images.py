"""Cluster images with one partition of three replicas, and the nodes that live."""

from collections.abc import Sequence

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult

TOPIC = bytes(15) + b"\1"
US = 1


def image(state: PartitionState, living: Sequence[Member]) -> ClusterImage:
    topic = Topic("t", TOPIC.hex(), 1)
    values: dict[str, object] = {keys.topic("t"): topic, keys.partition(TOPIC, 0): state}
    values |= {keys.member(STORAGE, member.node_id): member for member in living}
    items = [KeyValue(key, encode(value), 1, 1, 0) for key, value in sorted(values.items())]
    return ClusterImage.from_range(RangeResult(tuple(items), 1))


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(
        tuple(Replica(n, "") for n in (1, 2, 3)), leader, leader * 10, 4, 4, tuple(InSync(n, n * 10) for n in isr)
    )


def node(node_id: int, *, stopping: bool = False, incarnation: int = 0) -> Member:
    return Member(STORAGE, node_id, incarnation or node_id * 10, "host", stopping=stopping)
