"""The numbers of groups and members of a shard, counted by a walk."""

from collections import Counter

from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER, SIMPLE


def check_counts(machine: GroupMachine) -> None:
    """Asserts that the machine's numbers are those of a walk over all groups."""
    states: Counter[tuple[str, str]] = Counter()
    members: Counter[str] = Counter()
    for kind, groups in ((CLASSIC, machine.classic.groups), (CONSUMER, machine.consumer.groups)):
        states.update((kind, group.state.value) for group in groups.values())
        members[kind] += sum(len(group.members) for group in groups.values())
    states[SIMPLE, "Empty"] += len(list(machine.simple_groups()))
    assert machine.counts.states == dict(+states)
    assert machine.counts.members == dict(+members)
