"""Server-side assignors: the properties of their results."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.group_coordinator.core.consumer.assignors import ASSIGNORS, assign
from services.group_coordinator.core.consumer.assignors.racks import Matching
from services.group_coordinator.core.consumer.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from tests.group_coordinator.assignors.specs import (
    RACKS,
    after,
    any_spec,
    before,
    check_no_better_move,
    check_valid,
    loads,
    moved,
    near,
    owners,
    plain,
    sound,
    topic_id,
)

EVERY = pytest.mark.parametrize("name", ASSIGNORS)


@EVERY
@given(spec=any_spec())
def test_each_partition_has_one_owner_that_subscribes_to_it(name: str, spec: GroupSpec) -> None:
    check_valid(spec, assign(name, spec))


@EVERY
@given(spec=any_spec(), random=st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_does_not_matter(name: str, spec: GroupSpec, random) -> None:
    members, topics = list(spec.members.items()), list(spec.topics.items())
    random.shuffle(members)
    random.shuffle(topics)
    assert assign(name, GroupSpec(dict(members), dict(topics))) == assign(name, spec)


@EVERY
@given(spec=any_spec())
def test_assigning_again_changes_nothing(name: str, spec: GroupSpec) -> None:
    first = assign(name, spec)
    again = assign(name, after(spec, first))
    assert owners(again) == owners(first)


@EVERY
def test_a_group_without_members_and_members_without_topics_have_nothing(name: str) -> None:
    assert assign(name, GroupSpec({}, {topic_id(0): TopicSpec(3)})) == {}
    assert assign(name, GroupSpec({"m": MemberSpec(frozenset())}, {topic_id(0): TopicSpec(3)})) == {"m": {}}
    assert assign(name, GroupSpec({"m": MemberSpec(frozenset([topic_id(1)]))}, {topic_id(0): TopicSpec(3)})) == {"m": {}}


# -- uniform ------------------------------------------------------------------------------------------------------------------


@given(any_spec(same_subscriptions=True))
def test_with_equal_subscriptions_loads_differ_by_at_most_one(spec: GroupSpec) -> None:
    load = loads(assign("uniform", spec)).values()
    assert max(load, default=0) - min(load, default=0) <= 1


@given(any_spec(same_subscriptions=False))
@settings(max_examples=300)
def test_with_different_subscriptions_no_move_makes_loads_more_even(spec: GroupSpec) -> None:
    check_no_better_move(spec, assign("uniform", spec))


@given(any_spec(same_subscriptions=True))
def test_with_equal_subscriptions_no_fewer_partitions_could_move(spec: GroupSpec) -> None:
    """Each member keeps as much as an even share allows, and as many as can keep one more than others."""
    topics = next((member.subscribed for member in spec.members.values()), frozenset()) & spec.topics.keys()
    total = sum(spec.topics[known].partitions for known in topics)
    assigned = assign("uniform", spec)
    held = before(spec)
    disputed = {
        (known, partition)
        for member in spec.members.values()
        for known, partitions in member.assigned.items()
        for partition in partitions
        if (known, partition) not in held
    }
    if not spec.members or any(known in topics and partition < spec.topics[known].partitions for known, partition in disputed):
        return  # held by two members: their order decides
    quota, more = divmod(total, len(spec.members))
    had = {
        member_id: sum(
            known in topics and partition < spec.topics[known].partitions
            for (known, partition), holder in held.items()
            if holder == member_id
        )
        for member_id in spec.members
    }
    could_keep = sum(min(count, quota) for count in had.values()) + min(more, sum(count > quota for count in had.values()))
    assert moved(spec, assigned) == sum(had.values()) - could_keep


@pytest.mark.parametrize("members", [2, 3, 7, 10])
def test_a_new_member_gets_its_share_and_no_other_gets_anything(members: int) -> None:
    small = plain(members, 50, topics=2)
    settled = after(small, assign("uniform", small))
    joined = replace(settled, members={**settled.members, "new": MemberSpec(frozenset(settled.topics))})
    assigned = assign("uniform", joined)
    assert moved(joined, assigned) == loads(assigned)["new"] == 100 // (members + 1)


@pytest.mark.parametrize("members", [2, 3, 7, 10])
def test_only_a_departed_members_partitions_move(members: int) -> None:
    full = plain(members, 50, topics=2)
    settled = after(full, assign("uniform", full))
    left = replace(settled, members={k: v for k, v in settled.members.items() if k != "m0001"})
    assigned = assign("uniform", left)
    assert moved(left, assigned) == 0
    check_valid(left, assigned)


@given(any_spec(same_subscriptions=False, racks=False))
def test_with_different_subscriptions_a_departure_moves_no_more_than_it_must(spec: GroupSpec) -> None:
    """With different subscriptions others' partitions move only where that makes loads more even."""
    settled = after(spec, assign("uniform", spec))
    for gone in settled.members:
        rest = replace(settled, members={k: v for k, v in settled.members.items() if k != gone})
        assigned = assign("uniform", rest)
        kept = {
            member_id: {known: list(partitions) for known, partitions in member.assigned.items()}
            for member_id, member in rest.members.items()
        }
        if moved(rest, assigned):  # then keeping everything would not have been even
            free = owners(assign("uniform", settled)).keys() - owners(kept).keys()
            assert free, "nothing was free, and all was even before"


def test_a_topics_partitions_spread_over_members() -> None:
    spec = plain(4, 4, topics=3)
    assert all(len(topics) == 3 for topics in assign("uniform", spec).values())


# -- racks --------------------------------------------------------------------------------------------------------------------


def racked(partitions: int, members: int) -> GroupSpec:
    """Each partition has a replica in one rack."""
    return GroupSpec(
        {f"m{at}": MemberSpec(frozenset([topic_id(0)]), rack_id=RACKS[at % 3]) for at in range(members)},
        {topic_id(0): TopicSpec(partitions, [frozenset([RACKS[at % 3]]) for at in range(partitions)])},
    )


@pytest.mark.parametrize(("partitions", "members"), [(9, 3), (12, 6), (3, 3), (30, 6)])
def test_members_read_in_their_own_rack_where_loads_stay_even(partitions: int, members: int) -> None:
    spec = racked(partitions, members)
    assert near(spec, assign("uniform", spec)) == partitions


def test_members_with_other_subscriptions_read_in_their_own_rack_too() -> None:
    spec = racked(12, 3)
    spec = replace(spec, members={**spec.members, "other": MemberSpec(frozenset([topic_id(1)]))})
    assert near(spec, assign("uniform", spec)) == 12


def test_a_member_that_has_too_much_gives_up_what_is_far_from_it() -> None:
    spec = racked(6, 2)
    hoarder = replace(spec.members["m0"], assigned={topic_id(0): range(6)})
    assigned = assign("uniform", replace(spec, members={**spec.members, "m0": hoarder}))
    assert {0, 3} <= set(assigned["m0"][topic_id(0)])


def test_racks_move_nothing() -> None:
    spec = racked(9, 3)
    far = {
        f"m{at}": replace(spec.members[f"m{at}"], assigned={topic_id(0): [(at + 1) % 3 + 3 * turn for turn in range(3)]})
        for at in range(3)
    }
    settled = replace(spec, members=far)
    assert moved(settled, assign("uniform", settled)) == 0


@given(any_spec())
def test_racks_cost_neither_balance_nor_stickiness(spec: GroupSpec) -> None:
    spec = sound(spec)  # the order of members decides which one keeps it
    blind = replace(spec, members={k: replace(v, rack_id=None) for k, v in spec.members.items()})
    with_racks, without = assign("uniform", spec), assign("uniform", blind)
    assert sorted(loads(with_racks).values()) == sorted(loads(without).values())
    assert moved(spec, with_racks) <= moved(spec, without)


@given(
    supply=st.lists(st.frozensets(st.sampled_from("abc"), min_size=1), max_size=6),
    room=st.fixed_dictionaries({rack: st.integers(0, 3) for rack in "abc"}),
)
def test_as_many_partitions_as_can_go_to_a_rack_that_they_are_in(supply: list[frozenset[str]], room: dict[str, int]) -> None:
    matching = Matching(room)
    for kind in supply:
        matching.add(kind, 1)
    got = {rack: sum(takers.values()) for rack, takers in matching.takers.items()}
    assert all(got[rack] <= room[rack] for rack in room)
    for kind in set(supply):
        assert sum(takers.get(kind, 0) for takers in matching.takers.values()) <= supply.count(kind)
        assert all(rack in kind for rack, takers in matching.takers.items() if kind in takers)
    assert sum(got.values()) == max(_greedy(order, room) for order in set(permutations(supply)))


def _greedy(order: tuple[frozenset[str], ...], room: dict[str, int]) -> int:
    """The most of all choices for this order."""
    if not order:
        return 0
    best = _greedy(order[1:], room)
    for rack in order[0]:
        if room[rack]:
            best = max(best, 1 + _greedy(order[1:], {**room, rack: room[rack] - 1}))
    return best


# -- range --------------------------------------------------------------------------------------------------------------------


@given(any_spec())
def test_range_gives_contiguous_blocks_that_differ_by_at_most_one(spec: GroupSpec) -> None:
    assigned = assign("range", spec)
    for known in spec.topics:
        blocks = [assigned[member_id].get(known, ()) for member_id, member in spec.members.items() if known in member.subscribed]
        assert all(list(block) == list(range(block[0], block[-1] + 1)) for block in blocks if block)
        sizes = [len(block) for block in blocks]
        assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_range_gives_the_same_numbers_of_topics_with_as_many_partitions() -> None:
    for topics in assign("range", plain(3, 7, topics=4)).values():
        assert len({tuple(partitions) for partitions in topics.values()}) == 1


def test_a_static_member_has_its_place_under_whatever_member_id() -> None:
    topics = {topic_id(0): TopicSpec(6)}
    subscribed = frozenset(topics)

    def group(static: str) -> GroupSpec:
        return GroupSpec(
            {"b": MemberSpec(subscribed), "c": MemberSpec(subscribed), static: MemberSpec(subscribed, {}, "i")}, topics
        )

    assert assign("range", group("a"))["a"] == assign("range", group("z"))["z"] == {topic_id(0): range(2)}
