"""Placement in clusters of every shape."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.controller.core.placement.replica_placement import Load, Node, place

NODES = st.lists(
    st.builds(Node, st.integers(0, 50), st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", "h1", "h2"])),
    min_size=1,
    max_size=8,
    unique_by=lambda node: node.node_id,
)


@given(NODES, st.integers(1, 40), st.integers(1, 4), st.integers(0, 100), st.dictionaries(st.integers(0, 50), st.integers(0, 30)))
def test_placement_is_complete_even_and_repeatable(
    nodes: list[Node], partitions: int, factor: int, start: int, before: dict[int, int]
) -> None:
    factor = min(factor, len(nodes))

    def placed() -> list[tuple[int, ...]]:
        return place(partitions, factor, nodes, Load(Counter(before), Counter(before)), start)

    chosen = placed()
    assert chosen == placed()
    assert len(chosen) == partitions
    known = {node.node_id for node in nodes}
    for replicas in chosen:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= known
    leaders = Counter(replicas[0] for replicas in chosen)
    assert max(leaders.values()) - min(leaders[node_id] for node_id in known) <= 1


@given(st.integers(1, 30), st.integers(0, 10))
def test_replicas_are_even_where_racks_do_not_matter(partitions: int, start: int) -> None:
    nodes = [Node(n) for n in range(5)]
    counts = Counter(n for replicas in place(partitions, 3, nodes, Load(), start) for n in replicas)
    assert max(counts.values()) - min(counts[n] for n in range(5)) <= 2


def test_replicas_beyond_an_even_share_go_to_the_least_loaded() -> None:
    load = Load(Counter({1: 5, 2: 5, 3: 4}), Counter({1: 5, 2: 5, 3: 4}))
    assert place(1, 1, [Node(1), Node(2), Node(3)], load, 0) == [(3,)]
    assert load.leaders[3] == 5


def test_a_new_empty_node_does_not_get_all_of_a_topic() -> None:
    load = Load(Counter({1: 100, 2: 100}), Counter({1: 100, 2: 100}))
    assert Counter(place(9, 1, [Node(1), Node(2), Node(3)], load, 0)) == {(1,): 3, (2,): 3, (3,): 3}


def test_replicas_avoid_sharing_a_rack_and_then_a_host() -> None:
    racks = [Node(1, "a"), Node(2, "a"), Node(3, "b"), Node(4, "b")]
    for replicas in place(8, 2, racks, Load(), 0):
        assert {node_id > 2 for node_id in replicas} == {True, False}
    hosts = [Node(1, "", "h1"), Node(2, "", "h1"), Node(3, "", "h2"), Node(4, "", "h2")]
    for replicas in place(8, 2, hosts, Load(), 0):
        assert {node_id > 2 for node_id in replicas} == {True, False}
