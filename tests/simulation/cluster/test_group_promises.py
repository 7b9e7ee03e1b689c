"""The judge of groups: what it lets pass, and what it does not."""

import pytest

from tests.simulation.cluster.group_promises import NOTHING, Holding, Promises
from tests.simulation.cluster.world import World

ONE = ("t", 0)
OTHER = ("t", 1)


@pytest.fixture
def world() -> World:
    return World(1)


def promises(world: World, *, classic: bool = True) -> Promises:
    return Promises(world, "g", 6.0, "g-static", classic=classic)


def acknowledged(group: Promises, offset: int, generation: int = 1) -> None:
    group.accepted(group.commit_begins(generation, {ONE: offset}), ONE)


def fetched(group: Promises, offset: int) -> None:
    group.fetched(group.turn(), {ONE: offset})


def test_a_fetch_of_the_offset_acknowledged_last_is_right(world: World) -> None:
    group = promises(world)
    fetched(group, NOTHING)
    acknowledged(group, 5)
    acknowledged(group, 3)
    fetched(group, 3)
    assert world.violations == []


@pytest.mark.parametrize("offset", [5, 9, NOTHING])
def test_a_fetch_of_an_offset_that_was_replaced_or_never_committed_is_noticed(world: World, offset: int) -> None:
    group = promises(world)
    acknowledged(group, 5)
    acknowledged(group, 7)
    fetched(group, offset)
    assert len(world.violations) == 1


def test_of_commits_that_overlap_either_may_be_the_last(world: World) -> None:
    group = promises(world)
    one, other = group.commit_begins(1, {ONE: 5}), group.commit_begins(1, {ONE: 7})
    group.accepted(other, ONE)
    group.accepted(one, ONE)
    fetched(group, 7)
    assert world.violations == []


def test_a_commit_that_ends_amid_a_fetch_may_be_seen_or_not(world: World) -> None:
    group = promises(world)
    acknowledged(group, 5)
    begun = group.turn()
    acknowledged(group, 7)
    group.fetched(begun, {ONE: 5})
    group.fetched(begun, {ONE: 7})
    assert world.violations == []


def test_a_commit_of_unknown_outcome_may_be_there_and_stays_once_it_was_seen(world: World) -> None:
    group = promises(world)
    acknowledged(group, 5)
    group.commit_begins(1, {ONE: 7})
    fetched(group, 5)
    fetched(group, 7)
    assert world.violations == []
    fetched(group, 5)
    assert len(world.violations) == 1


def test_a_commit_is_in_doubt_until_it_is_answered_or_seen(world: World) -> None:
    group = promises(world)
    commit = group.commit_begins(1, {ONE: 5, OTHER: 5})
    assert group.in_doubt(ONE, 5)
    assert not group.in_doubt(ONE, 6)
    fetched(group, 5)
    group.refused(commit, OTHER)
    assert not group.in_doubt(ONE, 5)
    assert not group.in_doubt(OTHER, 5)


def test_a_fetch_of_a_refused_commit_is_noticed(world: World) -> None:
    group = promises(world)
    acknowledged(group, 5)
    commit = group.commit_begins(1, {ONE: 7})
    group.refused(commit, ONE)
    fetched(group, 7)
    assert len(world.violations) == 1


def test_the_refusal_of_a_commit_that_was_seen_is_noticed(world: World) -> None:
    group = promises(world)
    commit = group.commit_begins(1, {ONE: 7})
    fetched(group, 7)
    group.refused(commit, ONE)
    assert len(world.violations) == 1


def test_an_old_generation_commits_no_more(world: World) -> None:
    group = promises(world)
    before = group.commit_begins(1, {ONE: 5})
    group.synced(2, "a", "a", frozenset({ONE}), newest=group.newest)
    group.accepted(before, ONE)
    assert world.violations == []
    acknowledged(group, 6, generation=1)
    assert len(world.violations) == 1


def test_epochs_are_each_members_own(world: World) -> None:
    group = promises(world, classic=False)
    group.epoch_received(Holding("a"), 4, newest=0)
    acknowledged(group, 5, generation=3)
    assert world.violations == []
    group.accepted(group.commit_begins(2, {ONE: 6}), ONE, stale=True)
    assert len(world.violations) == 1


def test_a_generation_has_one_leader_and_no_partition_twice(world: World) -> None:
    group = promises(world)
    group.synced(1, "a", "a", frozenset({ONE}), newest=-1)
    group.synced(1, "b", "a", frozenset({OTHER}), newest=-1)
    assert world.violations == []
    group.synced(1, "c", "c", frozenset(), newest=-1)
    group.synced(1, "d", "a", frozenset({ONE}), newest=-1)
    group.synced(1, "a", "a", frozenset(), newest=-1)
    assert len(world.violations) == 3


def test_a_static_leader_comes_back_as_the_leader(world: World) -> None:
    group = promises(world)
    group.synced(1, "g-static", "g-static-1", frozenset({ONE}), newest=-1)
    group.synced(1, "g-static", "g-static-2", frozenset({ONE}), newest=-1)
    assert world.violations == []


def test_generations_and_epochs_do_not_fall(world: World) -> None:
    group = promises(world)
    group.synced(3, "a", "a", frozenset(), newest=-1)
    group.synced(2, "b", "b", frozenset(), newest=3)
    holding = Holding("c")
    group.epoch_received(holding, 4, newest=3)
    group.epoch_received(holding, 3, newest=None)
    group.epoch_received(Holding("d"), 3, newest=4)
    assert len(world.violations) == 3


@pytest.mark.parametrize(("heard_s", "twice"), [(-5.0, True), (-6.5, False)])
def test_nobody_gets_what_a_member_still_has(world: World, heard_s: float, twice: bool) -> None:
    group = promises(world, classic=False)
    has, gets = Holding("a"), Holding("b")
    group.holdings += [has, gets]
    has.heard_s = world.loop.time() + heard_s
    group.given(has, {ONE})
    group.given(gets, {ONE})
    assert len(world.violations) == twice
