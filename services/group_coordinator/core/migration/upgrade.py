"""A classic group of consumers becomes a group of the consumer protocol when the first member that speaks it comes (KIP-848).

Generation and assignments stay: each member is where the last generation left it, and what it may still own is held for it until
it says that it does not.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from libs.runtime.shards.decisions import ParkKey
from libs.runtime.shards.timers import TimerKey
from libs.wire.consumer_protocol import PROTOCOL_TYPE, TopicPartition, read_assignment, read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.messages.sync_group import SyncGroupResponse
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.asked import Reply
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic import draft as classic
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.member import Member as ClassicMember
from services.group_coordinator.core.consumer import classic_members, partitions
from services.group_coordinator.core.consumer.draft import Draft, Refused
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partition, Partitions
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.records import (
    ClassicGroupRemoved,
    ClassicProtocol,
    ConsumerGroupChanged,
    SpeaksClassic,
    TargetAssignmentChanged,
    TargetEpochChanged,
)
from services.group_coordinator.core.settings import MigrationPolicy
from services.group_coordinator.core.topics_view import TopicsView

ALLOWED: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)


def fault(group: ClassicGroup, policy: MigrationPolicy, size_max: int) -> Refused | None:
    """Of a classic group that somebody is in."""
    if policy not in ALLOWED:
        return _cannot(group.name, "online upgrade is disabled")
    if group.facts.protocol_type != PROTOCOL_TYPE:
        return _cannot(group.name, "the group does not use the consumer embedded protocol")
    if len(group.members) > size_max:
        return _cannot(group.name, "the group size exceeds the consumer group maximum size")
    return None


def _cannot(name: str, why: str) -> Refused:
    message = f"Cannot upgrade classic group {quoted(name)} to consumer group because {why}."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def convert(group: ClassicGroup, draft: Draft) -> Refused | None:
    """Into `draft`, of a group that begins."""
    epoch = group.facts.generation
    try:
        members = [_converted(group, group.members[member_id], draft.topics) for member_id in sorted(group.members)]
    except ProtocolError:
        return _cannot(group.name, "the embedded consumer protocol is malformed")
    except _UserDataError:
        return _cannot(
            group.name,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
            "re-attempting the upgrade",
        )
    name = draft.name
    for member, _ in members:
        draft.put(member.asks(name))
    draft.put(ConsumerGroupChanged(name, epoch, draft.hashes.of(draft.group.subscriptions, draft.topics)))
    for member, _ in members:
        draft.put(TargetAssignmentChanged(name, member.member_id, partitions.written(member.assigned)))
    draft.put(TargetEpochChanged(name, epoch))
    assigned: set[Partition] = {partition for member, _ in members for partition in partitions.each(member.assigned)}
    for member, owned in members:
        also = [partition for partition in owned if partition not in assigned]
        assigned.update(also)
        draft.put(_holding(member, also).has(name))
        draft.heard_of(member.member_id)
    return None


class _UserDataError(Exception):
    """An assignor of the clients' own says more than partitions."""


def _converted(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> tuple[Member, list[Partition]]:
    """With what it may own beside its assignment: what it had when it joined. A cooperative member that was told to give some of
    that up joins again when it has done so, and says then that it has not got it."""
    protocol = group.facts.protocol
    metadata = member.metadata(protocol) if protocol is not None else member.protocols[0].metadata
    subscription = read_subscription(metadata)
    assigned: Partitions = partitions.NONE
    if member.assignment:
        given = read_assignment(member.assignment)
        if given.user_data:
            raise _UserDataError
        assigned = _by_id(given.assigned_partitions, topics)
    epoch = group.facts.generation
    converted = Member(
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        classic_members.NO_REGEX,
        member.rebalance_timeout_ms,
        None,
        SpeaksClassic(member.session_timeout_ms, tuple([ClassicProtocol(*offered) for offered in member.protocols])),
        epoch,
        epoch,
        assigned=assigned,
    )
    return converted, list(partitions.each(_by_id(subscription.owned_partitions, topics)))


def _by_id(named: tuple[TopicPartition, ...], topics: TopicsView) -> Partitions:
    return partitions.of({topics.by_name[one.topic].topic_id: one.partitions for one in named if one.topic in topics.by_name})


def _holding(member: Member, also: list[Partition]) -> Member:
    if not also:
        return member
    more: dict[bytes, set[int]] = {}
    for topic_id, number in also:
        more.setdefault(topic_id, set()).add(number)
    held = partitions.together(member.assigned, partitions.of(more))
    return replace(member, assigned=held)


# -- what becomes of the classic group ----------------------------------------------------------------------------------------


def removal(group: ClassicGroup) -> list[object]:
    """Records: it is gone, and nobody waits any more.

    In the log also of a group that was never there: an owner that lost sight of what it appended finds there what became of the
    group that it remembers.
    """
    answered = [changes.AskerAnswered(group.name, member_id, True) for member_id in group.joining]
    answered += [changes.AskerAnswered(group.name, member_id, False) for member_id in group.syncing]
    return [ClassicGroupRemoved(group.name), *answered]


def wakes(group: ClassicGroup) -> list[tuple[ParkKey, Reply]]:
    """Who waits joins again, and is answered as a member of the new group."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    found: list[tuple[ParkKey, Reply]] = [
        (classic.join_park(group.name, member_id), classic.join_refused(again, member_id, waits.version))
        for member_id, waits in group.joining.items()
    ]
    found += [(classic.sync_park(group.name, member_id), SyncGroupResponse(error_code=again)) for member_id in group.syncing]
    return found


def timers(group: ClassicGroup) -> Mapping[TimerKey, int | None]:
    """None of it is needed any more."""
    ended: dict[TimerKey, int | None] = {classic.joins_key(group.name): None, classic.syncs_key(group.name): None}
    for member_id in [*group.members, *group.pending]:
        ended[classic.session_key(group.name, member_id)] = None
    return ended
