"""*Rule: shards have owners* (docs/rules.md): owners are live and even, and no shard moves without need."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.cluster.shard_owners import Owner
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.core.shards.shard_ownership import (
    CALM_S,
    CALM_S_MAX,
    Calm,
    assigned,
    candidates,
    owned_from_the_start,
    owners,
)
from tests.controller.images import group_coordinator

SHARDS = 50
A, B, C, D = (Owner(n, 1) for n in (1, 2, 3, 4))
LED = PartitionState((Replica(1, "d1"),), 1, 7, 3, 9, (InSync(1, 7),))

lives = st.builds(Owner, st.integers(0, 5), st.integers(1, 3))
living_ones = st.lists(lives, max_size=6, unique_by=lambda owner: owner.node_id)
owned_shards = st.lists(st.none() | lives, max_size=60)


def counts(result: Sequence[Owner | None]) -> dict[Owner | None, int]:
    return dict(Counter(result))


def moved(before: Sequence[Owner | None], after: Sequence[Owner | None]) -> int:
    return sum(was != now for was, now in zip(before, after, strict=True))


def even_owners(*living: Owner) -> list[Owner | None]:
    return owners([None] * SHARDS, living, even=True)


# --- properties


@given(owned_shards, living_ones, st.booleans())
def test_every_shard_has_a_live_owner_if_anybody_lives(before: list[Owner | None], living: list[Owner], even: bool) -> None:
    after = owners(before, living, even=even)
    assert len(after) == len(before)
    assert set(after) <= set(living) if living else after == before


@given(owned_shards, living_ones)
def test_in_calm_counts_differ_by_one_at_most(before: list[Owner | None], living: list[Owner]) -> None:
    after = Counter(owners(before, living, even=True))
    numbers = [after[owner] for owner in living]
    assert not numbers or max(numbers) - min(numbers) <= 1


@given(owned_shards, living_ones)
def test_in_calm_no_more_shards_move_than_must(before: list[Owner | None], living: list[Owner]) -> None:
    """The fewest moves to any even outcome: the owners with most shards keep the larger shares."""
    after = owners(before, living, even=True)
    if not living:
        return
    small, larger = divmod(len(before), len(living))
    held = sorted((sum(owner == one for owner in before) for one in living), reverse=True)
    kept = sum(min(has, small + (rank < larger)) for rank, has in enumerate(held))
    assert moved(before, after) == len(before) - kept


@given(owned_shards, living_ones)
def test_before_it_is_calm_live_coordinators_keep_their_shards(before: list[Owner | None], living: list[Owner]) -> None:
    after = owners(before, living, even=False)
    assert all(now == was for was, now in zip(before, after, strict=True) if was in living)


@given(owned_shards, living_ones, st.booleans())
def test_asked_again_it_says_the_same(before: list[Owner | None], living: list[Owner], even: bool) -> None:
    after = owners(before, living, even=even)
    assert owners(after, living, even=even) == after


@given(st.lists(st.tuples(st.sampled_from(["joins", "dies", "restarts", "calm"]), st.integers(0, 5)), max_size=30))
def test_through_any_history_what_moves_belonged_to_the_dead_or_it_was_calm(story: list[tuple[str, int]]) -> None:
    living = {0: 0}
    result = even_owners(Owner(0, 0))
    for life, (happens, node_id) in enumerate(story, start=1):
        if happens == "joins":
            living.setdefault(node_id, life)
        elif happens == "dies":
            living.pop(node_id, None)
        elif happens == "restarts" and node_id in living:
            living[node_id] = life
        present = [Owner(*one) for one in sorted(living.items())]
        before, result = result, owners(result, present, even=happens == "calm")
        assert happens == "calm" or all(was not in present for was, now in zip(before, result, strict=True) if was != now)
        assert not present or set(result) <= set(present)


# --- case by case


def test_all_shards_of_a_new_topic_are_spread_evenly() -> None:
    assert counts(even_owners(A, B, C)) == {A: 17, B: 17, C: 16}


def test_a_dead_coordinator_loses_its_shards_and_the_others_share_them() -> None:
    before = even_owners(A, B, C)
    after = owners(before, [A, B], even=False)
    assert counts(after) == {A: 25, B: 25}
    assert moved(before, after) == 16


def test_a_coordinator_that_joins_gets_its_share_and_no_more() -> None:
    before = even_owners(A, B, C)
    assert owners(before, [A, B, C, D], even=False) == before
    after = owners(before, [A, B, C, D], even=True)
    assert sorted(Counter(after).values()) == [12, 12, 13, 13]
    assert moved(before, after) == Counter(after)[D]


def test_a_restarted_coordinator_is_another_owner_and_gets_its_former_shards() -> None:
    before = even_owners(A, B, C)
    again = A._replace(incarnation=2)
    after = owners(before, [again, B, C], even=False)
    assert [again if owner == A else owner for owner in before] == after


def test_nobody_is_given_to_and_nothing_is_taken_while_nobody_lives() -> None:
    before = even_owners(A, B)
    assert owners(before, [], even=True) == before


# --- states


def members(*result: Member) -> dict[int, Member]:
    return {member.node_id: member for member in result}


def test_a_new_owner_raises_the_owner_epoch_and_leaves_the_leader_alone() -> None:
    state = replace(LED, owner="9@1", owner_epoch=4)
    ((index, after),) = assigned([state], members(group_coordinator(1)), even=True)
    assert (index, after) == (0, replace(state, owner="1@1", owner_epoch=5, partition_epoch=10))
    assert follows_the_table(state, after)
    assert assigned([after], members(group_coordinator(1)), even=True) == []


def test_a_shard_without_a_leader_gets_an_owner_too() -> None:
    state = replace(LED, leader=-1, leader_incarnation=0)
    ((_, after),) = assigned([state], members(group_coordinator(1)), even=True)
    assert follows_the_table(state, after)


@pytest.mark.parametrize("text", ["", "storage", "1@", "@1", "-1@2", "1@2@3"])
def test_an_owner_that_cannot_be_read_is_nobody(text: str) -> None:
    ((_, after),) = assigned([replace(LED, owner=text)], members(group_coordinator(1)), even=False)
    assert after.owner == "1@1"


def test_a_state_that_is_missing_is_passed_over() -> None:
    result = assigned([None, LED, None, LED], members(group_coordinator(1), group_coordinator(2)), even=True)
    assert [(index, state.owner) for index, state in result] == [(1, "1@1"), (3, "2@1")]


def test_a_stopping_coordinator_gives_its_shards_away_at_once_unless_nobody_could_take_them() -> None:
    stopping = replace(group_coordinator(1), stopping=True)
    state = replace(LED, owner="1@1", owner_epoch=1)
    assert candidates(members(stopping, group_coordinator(2))) == [B]
    ((_, after),) = assigned([state], members(stopping, group_coordinator(2)), even=False)
    assert after.owner == "2@1"
    assert assigned([state], members(stopping), even=True) == []


def test_shards_are_created_with_owners_where_anybody_lives() -> None:
    first = replace(LED, partition_epoch=0)
    (owned,) = owned_from_the_start([first], members(group_coordinator(1)))
    assert owned == replace(first, owner="1@1", owner_epoch=1)
    assert owned_from_the_start([first], {}) == (first,)


# --- calm


def test_it_is_calm_when_nobody_has_come_or_gone_for_a_second() -> None:
    calm = Calm()
    assert calm.remaining_s([A], 100.0) == CALM_S
    assert calm.remaining_s([A], 100.25) == CALM_S - 0.25
    assert calm.remaining_s([A, B], 100.5) == CALM_S
    assert calm.remaining_s([B, A], 101.5) == 0
    assert calm.remaining_s([A, B], 500.0) == 0
    assert calm.remaining_s([A], 500.25) == CALM_S


def test_one_that_comes_and_goes_all_the_time_does_not_keep_it_from_being_calm() -> None:
    calm = Calm()
    looks = [(n / 10, calm.remaining_s([A, B._replace(incarnation=n // 7)], n / 10)) for n in range(200)]
    assert next(now_s for now_s, wait_s in looks if wait_s == 0) == CALM_S_MAX
    assert looks[56][1] == CALM_S, "and it begins anew"
