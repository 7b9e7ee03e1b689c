"""The replicas for which a rolling restart waits before it stops the next storage node."""

from dataclasses import replace

from libs.cluster.records import InSync
from services.storage.core.lagging import lagging_replicas
from tests.storage.core.partition_images import US, image, node, state

OUR_INCARNATION = US * 10


def lags(*isr: InSync, adding: tuple[int, ...] = (), node_id: int = US) -> bool:
    partition = replace(state(2), isr=isr, adding=adding)
    return list(lagging_replicas(image(partition, [node(n) for n in (1, 2, 3)]), node_id, OUR_INCARNATION)) == ["t-0"]


def test_a_replica_in_the_isr_is_in_sync() -> None:
    assert not lags(InSync(US, OUR_INCARNATION), InSync(2, 20))


def test_a_replica_outside_of_the_isr_lags() -> None:
    assert lags(InSync(2, 20), InSync(3, 30))


def test_a_replica_that_was_in_sync_before_its_node_restarted_lags() -> None:
    assert lags(InSync(US, OUR_INCARNATION - 1), InSync(2, 20))


def test_a_replica_that_a_reassignment_adds_does_not_count() -> None:
    assert not lags(InSync(2, 20), adding=(US,))


def test_a_node_without_replicas_waits_for_none() -> None:
    assert not lags(InSync(2, 20), node_id=4)
