"""The tables of partition and replica states, and what is read off the metadata."""

from dataclasses import replace

import pytest

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.model.replica_health import LiveNode
from services.controller.core.partitions.partition_states import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionStatus,
    PartitionStep,
    ReplicaStatus,
    ReplicaStep,
    follows_the_table,
    partition_status,
    replica_status,
    step_between,
)
from services.controller.term import writes
from tests.controller.images import image_of, led_by, storage, topic_id

LED = PartitionState((Replica(1, "d1"), Replica(2, "")), 1, 1, 3, 7, (InSync(1, 1), InSync(2, 1)))
LEADERLESS = replace(LED, leader=-1, leader_incarnation=0, leader_epoch=4, partition_epoch=8, isr=(InSync(1, 1),))


def test_every_state_and_step_has_its_place_in_the_tables() -> None:
    assert {status for status, _ in PARTITION_TRANSITIONS} | set(PARTITION_TRANSITIONS.values()) == set(PartitionStatus)
    assert {step for _, step in PARTITION_TRANSITIONS} == set(PartitionStep)
    assert {status for status, _ in REPLICA_TRANSITIONS} | set(REPLICA_TRANSITIONS.values()) == set(ReplicaStatus)
    assert {step for _, step in REPLICA_TRANSITIONS} == set(ReplicaStep)


def test_a_partition_is_new_until_its_topic_is_there_and_online_while_somebody_leads_it() -> None:
    assert partition_status(None) is PartitionStatus.NON_EXISTENT
    assert partition_status(LED, committed=False) is PartitionStatus.NEW
    assert partition_status(LED) is PartitionStatus.ONLINE
    assert partition_status(LEADERLESS) is PartitionStatus.OFFLINE


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        (LED, LEADERLESS, PartitionStep.NOBODY_LEFT),
        (LEADERLESS, replace(LED, leader_epoch=5, partition_epoch=9), PartitionStep.ELECTED),
        (LEADERLESS, replace(LED, leader_epoch=5, partition_epoch=9, recovering=True), PartitionStep.ELECTED_AT_A_LOSS),
        (LED, replace(LED, leader=2, leader_epoch=4, partition_epoch=8), PartitionStep.LED_ANEW),
        (LED, replace(LED, isr=(InSync(1, 1),), partition_epoch=8), PartitionStep.ISR_CHANGED),
        (LED, replace(LED, replicas=(Replica(1, "d1"), Replica(2, "d2")), partition_epoch=8), PartitionStep.REPLICAS_CHANGED),
        (LED, replace(LED, owner="1@1", owner_epoch=1, partition_epoch=8), PartitionStep.OWNER_CHANGED),
        (LEADERLESS, replace(LEADERLESS, owner="1@1", owner_epoch=1, partition_epoch=9), PartitionStep.OWNER_CHANGED),
    ],
)
def test_a_step_is_read_off_two_states(before: PartitionState, after: PartitionState, step: PartitionStep) -> None:
    assert step_between(before, after) is step
    assert follows_the_table(before, after)


@pytest.mark.parametrize(
    "after",
    [
        replace(LED, isr=(), partition_epoch=8),
        replace(LED, isr=(InSync(1, 1),)),
        replace(LED, leader_epoch=2, partition_epoch=8),
        replace(LED, owner="1@1", partition_epoch=8),
        replace(LED, owner_epoch=1, partition_epoch=8),
    ],
    ids=["an empty ISR", "an old partition epoch", "an old leader epoch", "a new owner in an old epoch", "an epoch of nobody's"],
)
def test_a_state_that_must_never_be_written_is_not(after: PartitionState) -> None:
    assert not follows_the_table(LED, after)
    image = image_of(storage(1), storage(2), topics={"t": [LED]})
    with pytest.raises(AssertionError, match="must not become"):
        list(writes.partition_changes(image, [(topic_id(1), 0, after)]))


def test_a_replica_is_offline_without_its_node_its_directory_or_a_log_that_can_be_read() -> None:
    here = {1: LiveNode(1, frozenset({"d1"}))}
    assert replica_status(led_by(1), 1, here) is ReplicaStatus.ONLINE
    assert replica_status(led_by(1), 2, here) is ReplicaStatus.NON_EXISTENT
    assert replica_status(led_by(1), 1, {}) is ReplicaStatus.OFFLINE
    assert replica_status(led_by(1), 1, {1: LiveNode(1, frozenset())}) is ReplicaStatus.OFFLINE
    assert replica_status(replace(led_by(1), withdrawn=(InSync(1, 1),)), 1, here) is ReplicaStatus.OFFLINE
    both = here | {2: LiveNode(1, frozenset({"d2"}))}
    added = replace(LED, adding=(2,))
    assert replica_status(added, 2, both) is ReplicaStatus.ONLINE
    assert replica_status(replace(added, isr=(InSync(1, 1),)), 2, both) is ReplicaStatus.NEW
