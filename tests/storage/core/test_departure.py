"""The partitions that a stopping storage node waits for."""

from collections.abc import Sequence
from dataclasses import replace

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult
from services.storage.core.departure import partitions_to_hand_over

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


US_STOPPING = node(US, stopping=True)


def waits(state: PartitionState, *others: Member) -> bool:
    return list(partitions_to_hand_over(image(state, [US_STOPPING, *others]), US)) == [(TOPIC, 0)]


def test_a_leader_waits_until_another_in_sync_replica_leads() -> None:
    assert waits(state(1, 1, 2), node(2))
    assert not waits(state(2, 2), node(2))


def test_a_follower_waits_until_nobody_counts_on_its_acknowledgement() -> None:
    assert waits(state(2, 1, 2), node(2))
    assert not waits(state(2, 2, 3), node(2), node(3))


def test_nobody_waits_for_a_partition_that_nobody_else_can_serve() -> None:
    assert not waits(state(1, 1))
    assert not waits(state(1, 1, 2)), "the other one is dead"
    assert not waits(state(1, 1, 2), node(2, stopping=True))
    assert not waits(state(1, 1, 2), node(2, incarnation=21)), "the other one has restarted"
    assert not waits(replace(state(1, 1, 2), withdrawn=(InSync(2, 20),)), node(2))
