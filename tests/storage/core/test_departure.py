"""The partitions that a stopping storage node waits for."""

from dataclasses import replace

from libs.cluster.records import InSync, Member, PartitionState
from services.storage.core.departure import partitions_to_hand_over
from tests.storage.core.partition_images import TOPIC, US, image, node, state

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
