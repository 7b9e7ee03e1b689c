"""Groups of every shape for assignors, and the properties of all results."""

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec, TopicSpec

RACKS = ("r0", "r1", "r2")


def topic_id(number: int) -> bytes:
    return (number + 100).to_bytes(16, "big")


def plain(members: int, partitions: int, topics: int = 1) -> GroupSpec:
    """All subscribe to all; nothing is assigned yet."""
    ids = frozenset(map(topic_id, range(topics)))
    return GroupSpec(
        {f"m{number:04}": MemberSpec(ids) for number in range(members)}, {known: TopicSpec(partitions) for known in sorted(ids)}
    )


@st.composite
def any_spec(draw: st.DrawFn, *, same_subscriptions: bool | None = None, racks: bool = True) -> GroupSpec:
    """With what was assigned before: some of it gone, out of reach, not subscribed to, or held by two.

    Hypothesis draws a seed. Each number of its own `randoms` is drawn by itself, which took two thirds of these tests' CPU.
    """
    random = Random(draw(st.integers(0, 2**32)))
    return random_spec(
        random,
        members=draw(st.integers(0, 9)),
        topics=draw(st.integers(0, 6)),
        partitions_max=draw(st.integers(1, 12)),
        same_subscriptions=draw(st.booleans()) if same_subscriptions is None else same_subscriptions,
        racks=racks,
    )


def random_spec(
    random: Random, *, members: int, topics: int, partitions_max: int, same_subscriptions: bool, racks: bool = False
) -> GroupSpec:
    known = {topic_id(number): _topic(random, partitions_max, racks) for number in range(topics)}
    named = [*known, topic_id(99)] if random.random() < 0.2 else [*known]
    everybody = frozenset(random.sample(named, random.randint(0, len(named))))
    return GroupSpec(
        {
            f"m{number}": MemberSpec(
                everybody if same_subscriptions else frozenset(random.sample(named, random.randint(0, len(named)))),
                _assigned(random, known, members),
                f"i{random.randint(0, 99)}-{number}" if random.random() < 0.3 else None,
                random.choice((*RACKS, None)) if racks else None,
            )
            for number in random.sample(range(members), members)
        },
        known,
    )


def _topic(random: Random, partitions_max: int, racks: bool) -> TopicSpec:
    partitions = random.randint(0, partitions_max)
    if not racks or random.random() < 0.2:
        return TopicSpec(partitions)
    return TopicSpec(partitions, [frozenset(random.sample(RACKS, random.randint(0, 3))) for _ in range(partitions)])


def _assigned(random: Random, topics: dict[bytes, TopicSpec], members: int) -> dict[bytes, list[int]]:
    assigned: dict[bytes, list[int]] = {}
    for known, topic in topics.items():
        mine = [partition for partition in range(topic.partitions + 1) if random.random() < 1.2 / members]
        if mine and random.random() < 0.8:
            assigned[known] = mine
    return assigned


def sound(spec: GroupSpec) -> GroupSpec:
    """The spec without what Kafka never passes on: unknown topics, missing partitions, and partitions of two members."""
    taken: set[tuple[bytes, int]] = set()
    members = {}
    for member_id, member in spec.members.items():
        mine = {
            known: [at for at in partitions if at < spec.topics[known].partitions and (known, at) not in taken]
            for known, partitions in member.assigned.items()
        }
        taken.update((known, at) for known, partitions in mine.items() for at in partitions)
        subscribed = member.subscribed - {topic_id(99)}
        members[member_id] = replace(member, subscribed=subscribed, assigned={k: v for k, v in mine.items() if v})
    return replace(spec, members=members)


def before(spec: GroupSpec) -> dict[tuple[bytes, int], str]:
    """The former owner of each partition that had exactly one."""
    holders: dict[tuple[bytes, int], list[str]] = {}
    for member_id, member in spec.members.items():
        for known, partitions in member.assigned.items():
            for partition in set(partitions):
                holders.setdefault((known, partition), []).append(member_id)
    return {partition: those[0] for partition, those in holders.items() if len(those) == 1}


def owners(assignment: Assignment) -> dict[tuple[bytes, int], str]:
    """Fails if two have the same."""
    result: dict[tuple[bytes, int], str] = {}
    for member_id, topics in assignment.items():
        for known, partitions in topics.items():
            assert partitions, "a topic without partitions is not to be named"
            assert list(partitions) == sorted(set(partitions))
            for partition in partitions:
                assert (known, partition) not in result, f"{partition} belongs to {result[known, partition]} and {member_id}"
                result[known, partition] = member_id
    return result


def loads(assignment: Assignment) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in assignment.items()}


def check_valid(spec: GroupSpec, assignment: Assignment) -> None:
    """Each subscribed partition has one owner, which subscribes to it. No other partition has an owner."""
    assert assignment.keys() == spec.members.keys()
    result = owners(assignment)
    for (known, _), member_id in result.items():
        assert known in spec.members[member_id].subscribed
    expected = {known for member in spec.members.values() for known in member.subscribed} & spec.topics.keys()
    assert result.keys() == {(known, partition) for known in expected for partition in range(spec.topics[known].partitions)}


def check_no_better_move(spec: GroupSpec, assignment: Assignment) -> None:
    load = loads(assignment)
    for (known, _), owner in owners(assignment).items():
        for member_id, member in spec.members.items():
            if known in member.subscribed:
                assert load[owner] - load[member_id] <= 1, f"{owner} could give to {member_id}"


def moved(spec: GroupSpec, assignment: Assignment) -> int:
    """The number of partitions that moved from one member to another."""
    now = owners(assignment)
    return sum(now[partition] != member_id for partition, member_id in before(spec).items() if partition in now)


def near(spec: GroupSpec, assignment: Assignment) -> int:
    """The number of partitions with a replica in the rack of their owner."""
    return sum(
        spec.members[member_id].rack_id in spec.topics[known].racks[partition]
        for (known, partition), member_id in owners(assignment).items()
        if spec.topics[known].racks
    )


def after(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """The same group, having what was assigned."""
    return GroupSpec(
        {
            member_id: MemberSpec(member.subscribed, assignment[member_id], member.instance_id, member.rack_id)
            for member_id, member in spec.members.items()
        },
        spec.topics,
    )
