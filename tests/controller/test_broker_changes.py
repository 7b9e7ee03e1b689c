"""Partitions while their nodes come, restart and go."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.brokers import LiveNode, lost_directories, settle
from tests.controller.images import led_by


def alive(*nodes: tuple[int, int]) -> dict[int, LiveNode]:
    """(node, incarnation) each, with its usual directory."""
    return {node_id: LiveNode(incarnation, frozenset({f"d{node_id}"})) for node_id, incarnation in nodes}


def test_a_dead_leader_leaves_nobody_and_keeps_its_place_in_the_isr() -> None:
    state = settle(led_by(1, incarnation=5), {})
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (-1, 1, 1)
    assert state.isr == (InSync(1, 5),)
    assert settle(state, {}) is state


def test_a_node_that_returns_leads_with_its_new_incarnation_and_a_new_epoch() -> None:
    dead = settle(led_by(1, incarnation=5), {})
    state = settle(dead, alive((1, 6)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch, state.partition_epoch) == (1, 6, 2, 2)
    assert state.isr == (InSync(1, 6),)


def test_a_restart_that_nobody_saw_is_an_election_too() -> None:
    state = settle(led_by(1, incarnation=5), alive((1, 6)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch) == (1, 6, 1)


def test_a_process_that_only_lost_its_lease_leads_again() -> None:
    state = settle(settle(led_by(1, incarnation=5), {}), alive((1, 5)))
    assert (state.leader, state.leader_incarnation, state.leader_epoch) == (1, 5, 2)


def test_nothing_changes_while_everyone_lives() -> None:
    state = led_by(1)
    assert settle(state, alive((1, 1), (2, 9))) is state


def test_a_node_without_the_data_is_not_elected() -> None:
    live = {1: LiveNode(6, frozenset({"another"}))}
    state = settle(led_by(1, incarnation=5), live)
    assert (state.leader, state.isr) == (-1, (InSync(1, 5),))
    assert lost_directories(state, live) == (1,)
    assert settle(state, alive((1, 7))).leader == 1  # the directory is back


def test_a_leader_that_loses_the_directory_while_it_runs_steps_down() -> None:
    assert settle(led_by(1), {1: LiveNode(1, frozenset())}).leader == -1


def test_a_replica_that_has_not_chosen_its_directory_may_lead() -> None:
    assert settle(led_by(1, log_dir_id=""), {1: LiveNode(2, frozenset({"x"}))}).leader == 1


def three(leader: int = 1) -> PartitionState:
    replicas = tuple(Replica(n, f"d{n}") for n in (1, 2, 3))
    return PartitionState(replicas, leader, 1, 0, 0, tuple(InSync(n, 1) for n in (1, 2, 3)))


def test_one_death_changes_leader_and_isr_at_once() -> None:
    state = settle(three(), alive((2, 1), (3, 1)))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)
    assert state.isr == (InSync(2, 1), InSync(3, 1))


def test_a_dead_follower_leaves_the_isr_without_an_election() -> None:
    state = settle(three(), alive((1, 1), (3, 1)))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 0, 1)
    assert state.isr == (InSync(1, 1), InSync(3, 1))


def test_a_restarted_follower_leaves_the_isr_until_it_has_caught_up() -> None:
    assert settle(three(), alive((1, 1), (2, 2), (3, 1))).isr == (InSync(1, 1), InSync(3, 1))


def test_when_all_restarted_the_first_to_return_leads_alone() -> None:
    state = settle(three(), {})
    assert (state.leader, len(state.isr)) == (-1, 3)
    state = settle(state, alive((3, 2)))
    assert (state.leader, state.isr) == (3, (InSync(3, 2),))


NODES = st.dictionaries(
    st.integers(1, 4),
    st.builds(LiveNode, st.integers(1, 9), st.sampled_from([frozenset({"old"}), frozenset({"new"}), frozenset({"old", "new"})])),
)


@given(st.lists(NODES, max_size=12), st.integers(1, 3), st.booleans())
def test_whatever_happens_epochs_rise_and_nobody_leads_with_a_past_life(
    history: list[dict[int, LiveNode]], factor: int, chosen: bool
) -> None:
    replicas = tuple(Replica(n, "old" if chosen else "") for n in range(1, factor + 1))
    state = PartitionState(replicas, 1, 1, 0, 0, tuple(InSync(n, 1) for n in range(1, factor + 1)))
    for live in history:
        before, state = state, settle(state, live)
        assert settle(state, live) is state
        if state is before:
            continue
        assert state.isr
        assert len({member.node_id for member in state.isr}) == len(state.isr)
        assert {member.node_id for member in state.isr} <= {member.node_id for member in before.isr}
        assert state.partition_epoch == before.partition_epoch + 1
        led_anew = (state.leader, state.leader_incarnation) != (before.leader, before.leader_incarnation)
        assert state.leader_epoch == before.leader_epoch + led_anew
        assert replace(state, replicas=before.replicas).replicas == before.replicas
        if state.leader == -1:
            assert state.leader_incarnation == 0
        else:
            assert live[state.leader].incarnation == state.leader_incarnation
            assert InSync(state.leader, state.leader_incarnation) in state.isr
            assert not chosen or "old" in live[state.leader].log_dirs
