"""Storage nodes that live, and that some other process cannot reach: what the reports add up to, and who leads then."""

import pytest

from libs.cluster.records import GATEWAY, GROUP_COORDINATOR, STORAGE, InSync, PartitionState, Replica
from services.controller.core.elections.leader_election import electable, preferred
from services.controller.core.failure_detection.liveness import Process
from services.controller.core.failure_detection.reachability import KEPT_MS, Reachability
from services.controller.core.model.cuts import NO_CUTS, Cuts
from services.controller.core.model.replica_health import LiveNode, live_nodes
from services.controller.core.partitions.partition_reconciler import SteadyPartitions, reconcile
from tests.controller.images import storage

GATE, OTHER_GATE, COORDINATOR = Process(GATEWAY, 1, 1), Process(GATEWAY, 2, 1), Process(GROUP_COORDINATOR, 1, 1)
ONE, TWO = Process(STORAGE, 1, 1), Process(STORAGE, 2, 1)


def led_by(leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    replicas = tuple(Replica(node_id, f"d{node_id}") for node_id in (1, 2, 3))
    return PartitionState(replicas, leader, 1, 4, 4, tuple(InSync(node_id, 1) for node_id in isr))


def live(cuts: Cuts) -> dict[int, LiveNode]:
    return dict(live_nodes({node_id: storage(node_id) for node_id in (1, 2, 3)}, cuts))


def leader_after(state: PartitionState, cuts: Cuts) -> int:
    return reconcile(state, live(cuts), synced=True).leader


# --- reports


def test_callers_are_counted_and_storage_nodes_are_named_on_both_ends() -> None:
    reachability = Reachability()
    for process in (GATE, OTHER_GATE, COORDINATOR):
        reachability.report(process, [3], 0)
    reachability.report(ONE, [3], 0)
    assert reachability.cuts(1) == Cuts({3: 3}, {1: frozenset({3}), 3: frozenset({1})})


def test_a_report_holds_for_a_while_after_the_last_heartbeat_that_made_it() -> None:
    reachability = Reachability()
    reachability.report(GATE, [1], 0)
    reachability.report(GATE, [1], 5_000)
    reachability.report(GATE, [], 5_200)
    assert reachability.cuts(5_000 + KEPT_MS - 1) == Cuts({1: 1})
    assert reachability.cuts(5_000 + KEPT_MS) == NO_CUTS


def test_reports_of_processes_that_left_do_not_count() -> None:
    reachability = Reachability()
    reachability.report(GATE, [1], 0)
    reachability.report(ONE, [2], 0)
    reachability.watch([Process(GATEWAY, 1, 2), ONE])
    assert reachability.cuts(1) == Cuts({}, {1: frozenset({2}), 2: frozenset({1})})


# --- leaders


def test_a_leader_that_a_caller_cannot_reach_gives_way_to_one_that_all_reach() -> None:
    state = reconcile(led_by(1), live(Cuts({1: 1})), synced=True)
    assert (state.leader, state.leader_epoch) == (2, 5)
    assert {member.node_id for member in state.isr} == {1, 2, 3}, "it lives, and follows"


def test_a_leader_that_a_follower_cannot_reach_gives_way_to_one_that_both_reach() -> None:
    assert leader_after(led_by(1), Cuts({}, {1: frozenset({2}), 2: frozenset({1})})) == 3


def test_followers_that_left_the_isr_do_not_depose_a_leader() -> None:
    assert leader_after(led_by(1, isr=(1, 3)), Cuts({}, {1: frozenset({2}), 2: frozenset({1})})) == 1


@pytest.mark.parametrize(
    "cuts",
    [NO_CUTS, Cuts({1: 1, 2: 1, 3: 1}), Cuts({2: 1}), Cuts({}, {2: frozenset({3}), 3: frozenset({2})})],
    ids=["nobody", "all alike", "a follower", "two followers from each other"],
)
def test_a_leader_stays_where_no_other_is_reached_by_more(cuts: Cuts) -> None:
    assert leader_after(led_by(1), cuts) == 1


def test_the_next_leader_is_the_one_that_most_reach() -> None:
    nodes = live(Cuts({1: 2, 2: 1}))
    assert [member.node_id for member in electable(led_by(1), nodes)] == [3, 2, 1]
    assert leader_after(led_by(1, isr=(1, 2)), Cuts({1: 2, 2: 1})) == 2


def test_leadership_does_not_return_to_a_preferred_replica_that_fewer_reach() -> None:
    assert preferred(led_by(2), live(Cuts({1: 1}))) is None
    assert preferred(led_by(2), live(Cuts({1: 1, 2: 1}))) == InSync(1, 1)
    assert preferred(led_by(2), live(NO_CUTS)) == InSync(1, 1)


def test_partitions_of_a_node_that_some_do_not_reach_are_looked_at() -> None:
    steady, cut = SteadyPartitions(live(NO_CUTS)), SteadyPartitions(live(Cuts({1: 1})))
    assert steady(led_by(1))
    assert not cut(led_by(1))
