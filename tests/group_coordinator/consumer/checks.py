"""The invariants of every consumer group."""

from collections import Counter, deque
from dataclasses import fields
from typing import Any

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.tables import Journal
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import revocation_key, session_key
from services.group_coordinator.core.consumer.partitions import each
from services.group_coordinator.core.consumer.states import TRANSITIONS, State
from services.group_coordinator.core.model.records import MemberState
from services.group_coordinator.core.record_formats import record_codec
from tests.group_coordinator.consumer.stage import ConsumerMachine, Stage

KEPT = ("epoch", "metadata_hash", "assignment_epoch", "topics_seen")
"""Of a group's facts: what the log has."""


def agrees(group: Group) -> None:
    """Its tables with each other."""
    members = group.members.values()
    held = [(partition, member.member_id) for member in members for partition in (*each(member.assigned), *each(member.pending))]
    assert len(dict(held)) == len(held), "a partition is held by two"
    assert dict(group.holders) == dict(held)
    assert dict(group.statics) == {member.instance_id: member.member_id for member in members if member.instance_id is not None}
    named = Counter(topic for member in members for topic in member.topics)
    named.update(topic for resolved in group.regexes.values() for topic in resolved.topics)
    assert dict(group.subscriptions) == dict(named)
    assert dict(group.regex_members) == dict(Counter(member.regex for member in members if member.regex))
    assert dict(group.assignors) == dict(Counter(member.assignor for member in members if member.assignor))
    assert set(group.regexes) == set(group.regex_members), "each expression that is asked for is resolved, and no other"
    facts = group.facts
    assert facts.assignment_epoch <= facts.epoch
    assert set(group.unreconciled) == {
        member.member_id for member in members if not member.is_reconciled_to(facts.assignment_epoch)
    }
    targets = [partition for target in group.targets.values() for partition in each(target)]
    assert len(set(targets)) == len(targets), "a partition is meant for two"
    assert set(group.targets) <= set(group.members)
    for member in members:
        assert member.pending == {} or member.state is MemberState.UNREVOKED_PARTITIONS
        assert member.epoch <= facts.assignment_epoch
        assert not any(not numbers for numbers in (*member.assigned.values(), *member.pending.values()))


def is_looked_at_again(stage: Stage, group: Group) -> None:
    """Every member that may stay away has a deadline."""
    timers = stage.shard.timers
    for member in group.members.values():
        assert timers.deadline(session_key(group.name, member.member_id)) is not None
        waits = member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_away
        if waits:
            assert timers.deadline(revocation_key(group.name, member.member_id)) is not None


def leads_to(before: State, after: State) -> bool:
    """Along arrows of the table."""
    result, ahead = {before}, deque([before])
    while ahead:
        state = ahead.popleft()
        for (origin, _), goal in TRANSITIONS.items():
            if origin is state and goal not in result:
                result.add(goal)
                ahead.append(goal)
    return after in result


def kept(groups: dict[str, Group]) -> dict[str, Any]:
    """All that the log has of them."""
    assert {field.name for field in fields(next(iter(groups.values())).facts)} >= set(KEPT) if groups else True
    return {
        name: (
            {fact: getattr(group.facts, fact) for fact in KEPT},
            dict(group.members),
            dict(group.targets),
            dict(group.holders),
            dict(group.statics),
            dict(group.regexes),
            dict(group.subscriptions),
            set(group.unreconciled),
        )
        for name, group in groups.items()
    }


def compacted(log: list[KeyValue], *, tombstones: bool) -> list[KeyValue]:
    """The last record of each key, in their order; without the tombstones when they are old."""
    last = {record.key: at for at, record in enumerate(log)}
    return [log[at] for at in sorted(last.values()) if tombstones or log[at].value is not None]


def loaded(stage: Stage, log: list[KeyValue]) -> dict[str, Any]:
    """The state of an owner that loads this log."""
    machine = ConsumerMachine(Journal(), stage)
    for record in log:
        machine.replay(record_codec.decode(*record))
    for group in machine.consumer.groups.values():
        agrees(group)
    return kept(machine.consumer.groups)


def survives(stage: Stage) -> None:
    """The checks of a group at rest."""
    known = kept(stage.groups)
    assert loaded(stage, stage.log) == known
    assert loaded(stage, compacted(stage.log, tombstones=True)) == known
    assert loaded(stage, compacted(stage.log, tombstones=False)) == known
