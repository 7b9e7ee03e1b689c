"""Bounds on the work of assignors: heartbeats of other groups wait meanwhile."""

import sys
from collections.abc import Callable
from random import Random
from types import FrameType

import pytest

from services.group_coordinator.core.consumer.assignors import ASSIGNORS, assign
from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec, TopicSpec
from tests.group_coordinator.assignors.specs import after, check_valid, plain, topic_id

Made = Callable[[], GroupSpec]


def different(members: int, topics: int, partitions: int) -> GroupSpec:
    """Each member has its own choice of half of the topics."""
    random = Random(1)
    known = [topic_id(at) for at in range(topics)]
    return GroupSpec(
        {f"m{at:04}": MemberSpec(frozenset(random.sample(known, topics // 2))) for at in range(members)},
        {each: TopicSpec(partitions, [frozenset([f"r{at % 3}"]) for at in range(partitions)]) for each in known},
    )


def hoarded() -> GroupSpec:
    """One member has 10,000 partitions of a topic, and 999 others who subscribe to something else as well join it."""
    topics = {topic_id(0): TopicSpec(10_000)} | {topic_id(at): TopicSpec(1) for at in range(1, 1000)}
    members = {f"m{at:04}": MemberSpec(frozenset([topic_id(0), topic_id(at)]), rack_id=f"r{at % 3}") for at in range(1, 1000)}
    return GroupSpec({"m": MemberSpec(frozenset([topic_id(0)]), {topic_id(0): range(10_000)}), **members}, topics)


def chained() -> GroupSpec:
    """Each topic has two subscribers, each member two topics, and one end has everything."""
    topics = {topic_id(at): TopicSpec(10) for at in range(1000)}
    members = {
        f"m{at:04}": MemberSpec(
            frozenset([topic_id(at), topic_id((at + 1) % 1000)]), {topic_id(at): range(10)} if at < 300 else {}
        )
        for at in range(1000)
    }
    return GroupSpec(members, topics)


def many_racks() -> GroupSpec:
    racks = [f"r{at}" for at in range(100)]
    random = Random(2)
    topics = {topic_id(0): TopicSpec(10_000, [frozenset(random.sample(racks[:40], 3)) for _ in range(10_000)])}
    return GroupSpec({f"m{at}": MemberSpec(frozenset(topics), rack_id=racks[at % 100]) for at in range(1000)}, topics)


LINES_MAX = 3_000_000
"""About a second of a slow core. Twice what the most laborious group takes."""

LARGE: list[Made] = [
    lambda: plain(1000, 10_000),
    lambda: plain(1000, 100, topics=100),
    lambda: plain(1000, 1, topics=10_000),
    lambda: different(1000, 100, 100),
    hoarded,
    chained,
    many_racks,
]


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("made", LARGE)
def test_a_thousand_members_and_ten_thousand_partitions_take_bounded_work(name: str, made: Made) -> None:
    spec = made()
    check_valid(spec, _within(LINES_MAX, name, spec))


@pytest.mark.parametrize("name", ASSIGNORS)
def test_two_hundred_members_and_five_hundred_partitions_take_little_work(name: str) -> None:
    spec = plain(200, 500)
    _within(LINES_MAX // 100, name, spec)
    joined = after(spec, assign(name, spec))
    _within(LINES_MAX // 100, name, GroupSpec({**joined.members, "new": MemberSpec(frozenset(joined.topics))}, joined.topics))


def _within(lines_max: int, name: str, spec: GroupSpec) -> Assignment:
    """Lines of Python that are run, one in a loop each time: the same on a busy machine, and far more if anything is squared."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        assignment = assign(name, spec)
    finally:
        sys.settrace(before)
    assert lines <= lines_max, f"{lines:,} lines"
    return assignment
