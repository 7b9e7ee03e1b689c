"""Placement beside Kafka's striped assignment: never less even, and racks and hosts kept apart wherever that can be."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.controller.core.placement.replica_placement import Load, Node, place

RACKS = ("", "a", "b", "c")


def striped(partitions: int, factor: int, nodes: list[int], start: int, shift: int) -> list[tuple[int, ...]]:
    """Kafka's StripedReplicaPlacer without racks: the leader goes round, and the others follow it at a growing distance."""
    size = len(nodes)
    chosen = []
    for index in range(partitions):
        if index and index % size == 0:
            shift += 1
        first = (start + index) % size
        others = [(first + 1 + (shift + n) % (size - 1)) % size for n in range(factor - 1)] if size > 1 else []
        chosen.append(tuple(nodes[position] for position in (first, *others)))
    return chosen


def spread(counts: Counter[int], nodes: list[int]) -> int:
    return max(counts[node] for node in nodes) - min(counts[node] for node in nodes)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 60), st.integers(0, 50), st.integers(0, 50))
def test_leaders_and_replicas_are_at_least_as_even_as_striped(
    size: int, factor: int, partitions: int, start: int, shift: int
) -> None:
    factor = min(factor, size)
    nodes = list(range(size))
    ours = place(partitions, factor, [Node(n) for n in nodes], Load(), start)
    theirs = striped(partitions, factor, nodes, start, shift)
    assert spread(Counter(r[0] for r in ours), nodes) <= max(1, spread(Counter(r[0] for r in theirs), nodes))
    assert spread(Counter(n for r in ours for n in r), nodes) <= max(1, spread(Counter(n for r in theirs for n in r), nodes))


@given(
    st.lists(st.tuples(st.sampled_from(RACKS[1:]), st.sampled_from(["h1", "h2", "h3", "h4"])), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(0, 50),
)
def test_replicas_share_a_rack_only_when_there_are_more_replicas_than_racks(
    places: list[tuple[str, str]], factor: int, partitions: int, start: int
) -> None:
    nodes = [Node(node_id, rack, f"{rack}-{host}") for node_id, (rack, host) in enumerate(places)]
    factor = min(factor, len(nodes))
    by_id = {node.node_id: node for node in nodes}
    racks = {node.rack for node in nodes}
    for replicas in place(partitions, factor, nodes, Load(), start):
        assert len({by_id[n].rack for n in replicas}) == min(factor, len(racks))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(1, 4), st.integers(1, 30), st.integers(0, 50))
def test_replicas_share_a_host_only_when_there_are_more_replicas_than_hosts(
    hosts: list[int], factor: int, partitions: int, start: int
) -> None:
    nodes = [Node(node_id, "", f"h{host}") for node_id, host in enumerate(hosts)]
    factor = min(factor, len(nodes))
    for replicas in place(partitions, factor, nodes, Load(), start):
        assert len({hosts[n] for n in replicas}) == min(factor, len(set(hosts)))


@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 20))
def test_topics_made_one_after_another_stay_even_together(size: int, topics: int, start: int) -> None:
    nodes, load = list(range(size)), Load()
    factor = min(3, size)
    for number in range(topics):
        place(1 + number % 4, factor, [Node(n) for n in nodes], load, start + number)
    assert spread(load.leaders, nodes) <= 2
    assert spread(load.replicas, nodes) <= 3


# --- followers are spread: the second replica leads when the leader dies


def new_leaderships(chosen: list[tuple[int, ...]], dead: int) -> Counter[int]:
    """The number of leaderships that each survivor gets when this node dies."""
    return Counter(replicas[1] for replicas in chosen if replicas[0] == dead)


@given(st.integers(2, 12), st.integers(2, 4), st.integers(1, 80), st.integers(0, 50))
def test_leaderships_of_a_dead_node_fall_evenly_on_the_survivors(size: int, factor: int, partitions: int, start: int) -> None:
    factor, nodes = min(factor, size), list(range(size))
    chosen = place(partitions, factor, [Node(n) for n in nodes], Load(), start)
    for dead in nodes:
        assert spread(new_leaderships(chosen, dead), [node for node in nodes if node != dead]) <= 1


def test_followers_of_one_topic_use_every_pair_of_nodes() -> None:
    chosen = place(60, 2, [Node(n) for n in range(6)], Load(), 0)
    assert len({frozenset(replicas) for replicas in chosen}) == 15
    assert spread(Counter(n for replicas in chosen for n in replicas), list(range(6))) == 0


@pytest.mark.parametrize("drawn", range(100))
def test_a_death_is_spread_no_worse_than_kafka_spreads_it(drawn: int) -> None:
    random = Random(drawn)
    size = random.randint(3, 12)
    factor, partitions, nodes = random.randint(2, min(4, size)), random.randint(1, 100), list(range(size))
    ours = place(partitions, factor, [Node(n) for n in nodes], Load(), random.randint(0, 50))
    theirs = striped(partitions, factor, nodes, random.randint(0, 50), random.randint(0, 50))
    for placement in (ours, theirs):
        assert len(placement) == partitions
    worst_ours = max(max(new_leaderships(ours, dead).values(), default=0) for dead in nodes)
    worst_theirs = max(max(new_leaderships(theirs, dead).values(), default=0) for dead in nodes)
    assert worst_ours <= worst_theirs
    assert len({replicas[:2] for replicas in ours}) >= len({replicas[:2] for replicas in theirs})


def test_topics_of_one_partition_are_spread_over_the_cluster() -> None:
    nodes, load = list(range(6)), Load()
    chosen = [place(1, 3, [Node(n) for n in nodes], load, start)[0] for start in range(120)]
    assert len({replicas[:2] for replicas in chosen}) == 30
    for dead in nodes:
        assert spread(new_leaderships(chosen, dead), [node for node in nodes if node != dead]) <= 1
    assert spread(Counter(n for replicas in chosen for n in replicas), nodes) <= 1


def test_followers_are_spread_over_the_nodes_of_other_racks() -> None:
    racks = {node: "abc"[node % 3] for node in range(9)}
    chosen = place(54, 2, [Node(node, rack) for node, rack in racks.items()], Load(), 0)
    for dead in racks:
        others = [node for node in racks if racks[node] != racks[dead]]
        assert spread(new_leaderships(chosen, dead), others) <= 1
