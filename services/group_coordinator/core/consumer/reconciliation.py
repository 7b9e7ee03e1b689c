"""How a member gets from what it has to what it is to have: gives up first, then gets what others gave up (KIP-848).

| it has | it says that it owns | then |
|---|---|---|
| more than its target | some of that, or nothing at all | it is to give that up, at its present epoch: UNREVOKED |
| more than its target | none of that | as if it had not |
| less, and some of the rest is held by others | | the rest that is free, at the epoch of the target: UNRELEASED |
| less | | all of it, at the epoch of the target: STABLE |
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from libs.wire.messages.consumer_group_heartbeat import TopicPartitions
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import NONE, Partition, Partitions, together
from services.group_coordinator.core.records import MemberState


@dataclass(frozen=True, slots=True)
class Aim:
    epoch: int
    """Of the target assignment."""
    target: Partitions
    subscribed: frozenset[bytes]
    """The topics that the member asks for: a target that was made before it changed its mind does not count for others."""
    changed: bool
    """It asks for other topics than before this heartbeat."""


def owns_any(owned: Iterable[TopicPartitions] | None, given_up: Partitions) -> bool:
    """None: it did not say, and may own them all."""
    if owned is None:
        return True
    return any(not given_up.get(topic.topic_id, frozenset()).isdisjoint(topic.partitions) for topic in owned)


def is_within(owned: Iterable[TopicPartitions] | None, assigned: Partitions) -> bool:
    """None: it did not say."""
    return owned is not None and all(assigned.get(topic.topic_id, frozenset()).issuperset(topic.partitions) for topic in owned)


def reconciled(
    member: Member, aim: Aim, owned: Iterable[TopicPartitions] | None, holder: Callable[[Partition], str | None]
) -> Member:
    """The member as it is next; itself where it cannot go on. One whose state is not known is fenced before."""
    match member.state:
        case MemberState.STABLE if member.epoch == aim.epoch:
            return _without_unsubscribed(member, aim, owned) if aim.changed else member
        case MemberState.UNREVOKED_PARTITIONS if owns_any(owned, member.pending):
            return _without_unsubscribed(member, aim, owned) if aim.changed else member
    return _next(member, aim, owned, holder)


def _without_unsubscribed(member: Member, aim: Aim, owned: Iterable[TopicPartitions] | None) -> Member:
    gone = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in aim.subscribed}
    if not gone:
        return member
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in aim.subscribed} or NONE
    pending = together(member.pending, gone)
    if owns_any(owned, pending):
        # As in Kafka since 4.3: with its former epoch still good, an old request could pass for the giving up.
        return replace(
            member, previous_epoch=member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending=pending
        )
    return replace(member, assigned=kept)


def _next(member: Member, aim: Aim, owned: Iterable[TopicPartitions] | None, holder: Callable[[Partition], str | None]) -> Member:
    kept: dict[bytes, frozenset[int]] = {}
    to_give_up: dict[bytes, frozenset[int]] = {}
    gets: dict[bytes, frozenset[int]] = {}
    unreleased = False
    for topic_id in aim.target.keys() | member.assigned.keys():
        target = aim.target.get(topic_id, frozenset()) if topic_id in aim.subscribed else frozenset()
        has = member.assigned.get(topic_id, frozenset())
        stays = has & target
        if stays:
            kept[topic_id] = stays
        if len(stays) < len(has):
            to_give_up[topic_id] = has - stays
        if len(stays) < len(target):
            wanted = target - stays
            free = frozenset(number for number in wanted if holder((topic_id, number)) in (None, member.member_id))
            unreleased = unreleased or len(free) < len(wanted)
            if free:
                gets[topic_id] = free
    if to_give_up and owns_any(owned, to_give_up):
        return replace(
            member,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept or NONE,
            pending=to_give_up,
        )
    return replace(
        member,
        epoch=aim.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        assigned=together(kept, gets) or NONE,
        pending=NONE,
    )
