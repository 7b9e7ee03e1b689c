"""Reconciliation of a member's assignment with its target (KIP-848): it revokes partitions first, then gets those of others.

| its assignment | the partitions that it reports | next state |
|---|---|---|
| more than its target | some of the surplus, or no report | UNREVOKED, at its present epoch: it has to revoke the surplus |
| more than its target | none of the surplus | as without the surplus |
| less, and others hold some of the rest | any | UNRELEASED, at the target's epoch: it gets what is free |
| less | any | STABLE, at the target's epoch: it gets the rest |
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from libs.lean_dataclass import dataclass
from libs.wire.messages.consumer_group_heartbeat import TopicPartitions
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import NONE, Partition, Partitions, union
from services.group_coordinator.core.model.records import MemberState


@dataclass(frozen=True, slots=True)
class Goal:
    epoch: int
    """The epoch of the target assignment."""
    target: Partitions
    subscribed: frozenset[bytes]
    """The subscribed topics. An older target may hold others, which do not count."""
    changed: bool
    """Whether this heartbeat changes the subscription."""


def owns_any(owned: Iterable[TopicPartitions] | None, revoked: Partitions) -> bool:
    """Whether the member owns any of `revoked`. None: it did not report, and may own all."""
    if owned is None:
        return True
    return any(not revoked.get(topic.topic_id, frozenset()).isdisjoint(topic.partitions) for topic in owned)


def is_within(owned: Iterable[TopicPartitions] | None, assigned: Partitions) -> bool:
    """Whether the member owns only its assignment. None: it did not report."""
    return owned is not None and all(assigned.get(topic.topic_id, frozenset()).issuperset(topic.partitions) for topic in owned)


def reconciled(
    member: Member, goal: Goal, owned: Iterable[TopicPartitions] | None, holder: Callable[[Partition], str | None]
) -> Member:
    """The member after one step; the same object if it has to wait. A member in an unknown state was fenced before."""
    match member.state:
        case MemberState.STABLE if member.epoch == goal.epoch:
            return _without_unsubscribed(member, goal, owned) if goal.changed else member
        case MemberState.UNREVOKED_PARTITIONS if owns_any(owned, member.pending):
            return _without_unsubscribed(member, goal, owned) if goal.changed else member
    return _next(member, goal, owned, holder)


def _without_unsubscribed(member: Member, goal: Goal, owned: Iterable[TopicPartitions] | None) -> Member:
    gone = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in goal.subscribed}
    if not gone:
        return member
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in goal.subscribed} or NONE
    pending = union(member.pending, gone)
    if owns_any(owned, pending):
        # As in Kafka since 4.3: while its former epoch was accepted, an old request could pass for the revocation.
        return replace(
            member, previous_epoch=member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending=pending
        )
    return replace(member, assigned=kept)


def _next(
    member: Member, goal: Goal, owned: Iterable[TopicPartitions] | None, holder: Callable[[Partition], str | None]
) -> Member:
    kept: dict[bytes, frozenset[int]] = {}
    to_revoke: dict[bytes, frozenset[int]] = {}
    gets: dict[bytes, frozenset[int]] = {}
    unreleased = False
    for topic_id in goal.target.keys() | member.assigned.keys():
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        has = member.assigned.get(topic_id, frozenset())
        stays = has & target
        if stays:
            kept[topic_id] = stays
        if len(stays) < len(has):
            to_revoke[topic_id] = has - stays
        if len(stays) < len(target):
            missing = target - stays
            free = frozenset(number for number in missing if holder((topic_id, number)) in (None, member.member_id))
            unreleased = unreleased or len(free) < len(missing)
            if free:
                gets[topic_id] = free
    if to_revoke and owns_any(owned, to_revoke):
        return replace(
            member,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept or NONE,
            pending=to_revoke,
        )
    return replace(
        member,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        assigned=union(kept, gets) or NONE,
        pending=NONE,
    )
