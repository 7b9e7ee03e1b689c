"""Partitions while their nodes come, restart and go."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.elections.leader_election import NO_LEADER, last_resort
from services.controller.core.model.replica_health import may_join
from services.controller.core.partitions.partition_reconciler import (
    LiveNode,
    SteadyPartitions,
    lost_directories,
    reconcile,
    with_lax,
)
from tests.controller.images import led_by


def alive(*nodes: tuple[int, int]) -> dict[int, LiveNode]:
    """(node, incarnation) each, with its usual directory."""
    return {node_id: LiveNode(incarnation, frozenset({f"d{node_id}"})) for node_id, incarnation in nodes}


def test_a_dead_leader_leaves_nobody_and_keeps_its_place_in_the_isr() -> None:
    state = reconcile(led_by(1, incarnation=5), {})
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (-1, 1, 1)
    assert state.isr == (InSync(1, 5),)
    assert reconcile(state, {}) is state


def test_a_node_that_returns_leads_with_its_new_incarnation_and_a_new_epoch() -> None:
    dead = reconcile(led_by(1, incarnation=5), {})
    state = reconcile(dead, alive((1, 6)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch, state.partition_epoch) == (1, 6, 2, 2)
    assert state.isr == (InSync(1, 6),)


def test_a_restart_that_nobody_saw_is_an_election_too() -> None:
    state = reconcile(led_by(1, incarnation=5), alive((1, 6)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch) == (1, 6, 1)


def test_a_process_that_only_lost_its_lease_leads_again() -> None:
    state = reconcile(reconcile(led_by(1, incarnation=5), {}), alive((1, 5)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch) == (1, 5, 2)


def test_nothing_changes_while_everyone_lives() -> None:
    state = led_by(1)
    assert reconcile(state, alive((1, 1), (2, 9))) is state


def test_a_node_without_the_data_is_not_elected() -> None:
    live = {1: LiveNode(6, frozenset({"another"}))}
    state = reconcile(led_by(1, incarnation=5), live)
    assert (state.leader, state.isr) == (-1, (InSync(1, 5),))
    assert lost_directories(state, live) == (1,)
    assert reconcile(state, alive((1, 7))).leader == 1  # the directory is back


def test_a_leader_that_loses_the_directory_while_it_runs_steps_down() -> None:
    assert reconcile(led_by(1), {1: LiveNode(1, frozenset())}).leader == -1


def test_a_replica_that_has_not_chosen_its_directory_may_lead() -> None:
    assert reconcile(led_by(1, log_dir_id=""), {1: LiveNode(2, frozenset({"x"}))}).leader == 1


def three(leader: int = 1) -> PartitionState:
    replicas = tuple(Replica(n, f"d{n}") for n in (1, 2, 3))
    return PartitionState(replicas, leader, 1, 0, 0, tuple(InSync(n, 1) for n in (1, 2, 3)))


def test_one_death_changes_leader_and_isr_at_once() -> None:
    state = reconcile(three(), alive((2, 1), (3, 1)))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)
    assert state.isr == (InSync(2, 1), InSync(3, 1))


def test_a_dead_follower_leaves_the_isr_without_an_election() -> None:
    state = reconcile(three(), alive((1, 1), (3, 1)))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 0, 1)
    assert state.isr == (InSync(1, 1), InSync(3, 1))


def test_a_restarted_follower_leaves_the_isr_until_it_has_caught_up() -> None:
    assert reconcile(three(), alive((1, 1), (2, 2), (3, 1))).isr == (InSync(1, 1), InSync(3, 1))


def test_when_all_died_the_first_to_return_leads_alone() -> None:
    state = reconcile(three(), {})
    assert (state.leader, len(state.isr)) == (-1, 3)
    state = reconcile(state, alive((3, 2)))
    assert (state.leader, state.isr) == (3, (InSync(3, 2),))


def test_those_of_the_last_isr_that_return_together_stay_in_it_together() -> None:
    state = reconcile(three(), alive((1, 2), (3, 2)))
    assert (state.leader, state.isr) == (1, (InSync(1, 2), InSync(3, 2)))


def test_a_node_that_registers_again_in_the_same_life_must_catch_up_while_another_is_in_sync() -> None:
    state = reconcile(three(), alive((1, 1), (3, 1)))
    assert reconcile(state, alive((1, 1), (2, 1), (3, 1))) is state


def restarted(node_id: int, incarnation: int, survived_from: int, *, stopping: bool = False) -> dict[int, LiveNode]:
    return {node_id: LiveNode(incarnation, frozenset({f"d{node_id}"}), survived_from, stopping)}


def test_a_replica_that_may_lack_its_page_cache_does_not_lead_a_replicated_topic() -> None:
    """KIP-966: the last in-sync replica loses its unflushed tail; it must not lead and truncate the others."""
    dead = reconcile(led_by(1, incarnation=5), {})
    assert reconcile(dead, restarted(1, 6, survived_from=0), synced=False) is dead
    assert reconcile(dead, restarted(1, 6, survived_from=6), synced=False) is dead
    assert reconcile(dead, restarted(1, 6, survived_from=5), synced=False).leader == 1
    assert reconcile(dead, restarted(1, 4, survived_from=4), synced=False) is dead  # an earlier life's registration, landed late
    assert reconcile(dead, restarted(1, 6, survived_from=6), synced=True).leader == 1


def test_one_nodes_lost_page_cache_is_not_the_clusters_loss() -> None:
    state = reconcile(three(), {})
    lost = restarted(1, 2, survived_from=2)
    assert reconcile(state, lost, synced=False) is state
    kept = reconcile(state, lost | restarted(2, 2, survived_from=1), synced=False)
    assert (kept.leader, kept.isr) == (2, (InSync(2, 2),))


def test_a_stopping_leader_hands_over_and_leaves_the_isr_at_once() -> None:
    live = alive((2, 1), (3, 1)) | restarted(1, 1, 1, stopping=True)
    state = reconcile(three(), live)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)
    assert state.isr == (InSync(2, 1), InSync(3, 1))


def test_a_stopping_leader_stays_while_nobody_else_is_in_sync() -> None:
    live = restarted(1, 1, 1, stopping=True)
    alone = led_by(1)
    assert reconcile(alone, live) is alone
    both = replace(three(leader=2), isr=(InSync(1, 1), InSync(2, 1)))
    assert reconcile(both, live | restarted(2, 1, 1, stopping=True)) is both


def test_a_damaged_replica_may_lead_in_its_next_life() -> None:
    damaged = replace(led_by(1, incarnation=5), withdrawn=(InSync(1, 5),))
    state = reconcile(damaged, alive((1, 5)))
    assert (state.leader, state.withdrawn) == (-1, (InSync(1, 5),))
    assert reconcile(state, {}) is state
    again = reconcile(state, alive((1, 6)))
    assert (again.leader, again.isr, again.withdrawn) == (1, (InSync(1, 6),), ())


def test_replicas_that_are_to_go_are_elected_last() -> None:
    state = replace(three(), removing=(2,))
    assert reconcile(state, alive((2, 1), (3, 1))).leader == 3
    assert reconcile(state, alive((2, 1))).leader == 2


DIRECTORIES = st.sampled_from([frozenset({"old"}), frozenset({"new"}), frozenset({"old", "new"})])
NODES = st.dictionaries(st.integers(1, 4), st.builds(LiveNode, st.integers(1, 9), DIRECTORIES, st.integers(0, 9), st.booleans()))


@given(
    st.lists(st.tuples(NODES, st.integers(0, 5), st.booleans()), max_size=14),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_whatever_happens_epochs_rise_and_nobody_leads_with_a_past_life(
    history: list[tuple[dict[int, LiveNode], int, bool]], factor: int, chosen: bool, synced: bool
) -> None:
    """Nodes live, die, restart, stop, lose directories and page caches; between, leaders shrink and expand their ISRs."""
    replicas = tuple(Replica(n, "old" if chosen else "") for n in range(1, factor + 1))
    state = PartitionState(replicas, 1, 1, 0, 0, tuple(InSync(n, 1) for n in range(1, factor + 1)))
    led: dict[int, tuple[int, int]] = {0: (1, 1)}
    for live, other, damaged in history:
        before, state = state, reconcile(state, live, synced=synced)
        assert reconcile(state, live, synced=synced) is state
        assert SteadyPartitions(live)(state) is False or state.leader >= 0
        if SteadyPartitions(live)(before):
            assert state is before
        if state is not before:
            assert {member.node_id for member in state.isr} <= {member.node_id for member in before.isr}
            assert state.partition_epoch == before.partition_epoch + 1
            led_anew = (state.leader, state.leader_incarnation) != (before.leader, before.leader_incarnation)
            assert state.leader_epoch == before.leader_epoch + led_anew
            assert state.replicas == before.replicas
        assert state.isr
        assert len({member.node_id for member in state.isr}) == len(state.isr)
        assert led.setdefault(state.leader_epoch, (state.leader, state.leader_incarnation)) == (
            state.leader,
            state.leader_incarnation,
        )
        if state.leader == -1:
            assert state.leader_incarnation == 0
            continue
        leader = live[state.leader]
        assert leader.incarnation == state.leader_incarnation
        assert InSync(state.leader, state.leader_incarnation) in state.isr
        assert not chosen or "old" in leader.log_dirs
        others = [m for m in state.isr if m.node_id != state.leader]
        assert not (leader.stopping and any(not live[m.node_id].stopping for m in others))
        state = _between(state, live, other, damaged)


def _between(state: PartitionState, live: dict[int, LiveNode], other: int, damaged: bool) -> PartitionState:
    """The leader expands its ISR by `other` or shrinks it to itself; or the ISR's last member turns out to be damaged."""
    leader = InSync(state.leader, state.leader_incarnation)
    if damaged and state.isr == (leader,):
        return replace(state, withdrawn=(leader,), partition_epoch=state.partition_epoch + 1)
    result = InSync(other, live[other].incarnation) if other in live else leader
    isr = (leader, result) if result != leader and may_join(state, result, live) else (leader,)
    return replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)


def test_a_replica_that_comes_back_may_lack_records_acknowledged_before_its_topic_was_synced() -> None:
    """Its `durability` was changed while the last in-sync replica was down."""
    state = PartitionState((Replica(1, "d1"),), NO_LEADER, 0, 5, 8, (InSync(1, 1),))
    back = {1: LiveNode(2, frozenset({"d1"}))}
    assert reconcile(state, back, synced=True).leader == 1
    lax = with_lax(state, state, synced=False)
    assert reconcile(lax, back, synced=True).leader == NO_LEADER
    assert last_resort(lax, back, synced=True) == (InSync(1, 2),)
    assert with_lax(lax, state, synced=True) is lax
