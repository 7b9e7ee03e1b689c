"""The upgrade: a classic group of consumers becomes a consumer group when the first member that speaks the consumer protocol
joins (KIP-848).

Generation and assignments stay. Each member starts from the last generation. Partitions that it may still own are held for it
until it reports that it does not own them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from libs.coordinator.core.decisions import ParkKey
from libs.coordinator.core.timers import TimerKey
from libs.wire.consumer_protocol import PROTOCOL_TYPE, TopicPartition, read_assignment, read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.messages.sync_group import SyncGroupResponse
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic import changes
from services.group_coordinator.core.classic import group_decision as classic
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.member import Member as ClassicMember
from services.group_coordinator.core.consumer import partitions
from services.group_coordinator.core.consumer.group_decision import GroupDecision, Refused
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partition, Partitions
from services.group_coordinator.core.migration import classic_members
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import (
    ClassicGroupRemoved,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupChanged,
    TargetAssignmentChanged,
    TargetEpochChanged,
)
from services.group_coordinator.core.model.requests import Reply
from services.group_coordinator.core.model.settings import MigrationPolicy
from services.group_coordinator.core.model.topics_view import TopicsView

ALLOWED: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)


def fault(group: ClassicGroup, policy: MigrationPolicy, size_max: int) -> Refused | None:
    """The refusal for a classic group with members, or None."""
    if policy not in ALLOWED:
        return _upgrade_refused(group.name, "online upgrade is disabled")
    if group.facts.protocol_type != PROTOCOL_TYPE:
        return _upgrade_refused(group.name, "the group does not use the consumer embedded protocol")
    if len(group.members) > size_max:
        return _upgrade_refused(group.name, "the group size exceeds the consumer group maximum size")
    return None


def _upgrade_refused(name: str, why: str) -> Refused:
    message = f"Cannot upgrade classic group {quoted(name)} to consumer group because {why}."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def convert(group: ClassicGroup, group_decision: GroupDecision) -> Refused | None:
    """Puts the group's members into `group_decision`, which is about a new group. Returns a refusal or None."""
    epoch = group.facts.generation
    try:
        members = [_converted(group, group.members[member_id], group_decision.topics) for member_id in sorted(group.members)]
    except ProtocolError:
        return _upgrade_refused(group.name, "the embedded consumer protocol is malformed")
    except _UserDataError:
        return _upgrade_refused(
            group.name,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
            "re-attempting the upgrade",
        )
    name = group_decision.name
    for member, _ in members:
        group_decision.put(member.metadata_record(name))
    group_decision.put(
        ConsumerGroupChanged(name, epoch, group_decision.hashes.of(group_decision.group.subscriptions, group_decision.topics))
    )
    for member, _ in members:
        group_decision.put(TargetAssignmentChanged(name, member.member_id, partitions.written(member.assigned)))
    group_decision.put(TargetEpochChanged(name, epoch))
    assigned: set[Partition] = {partition for member, _ in members for partition in partitions.each(member.assigned)}
    for member, owned in members:
        also = [partition for partition in owned if partition not in assigned]
        assigned.update(also)
        group_decision.put(_holding(member, also).assignment_record(name))
        group_decision.schedule_session_timeout(member.member_id)
    return None


class _UserDataError(Exception):
    """A custom assignor's data: it holds more than partitions."""


def _converted(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> tuple[Member, list[Partition]]:
    """The member, with the partitions that it may own beside its assignment: those that it had when it joined. A cooperative
    member that was told to revoke some joins again afterwards, and reports that it no longer owns them."""
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
        ClassicMemberMetadata(member.session_timeout_ms, tuple([ClassicProtocol(*offered) for offered in member.protocols])),
        epoch,
        epoch,
        assigned=assigned,
    )
    return converted, list(partitions.each(_by_id(subscription.owned_partitions, topics)))


def _by_id(named: tuple[TopicPartition, ...], topics: TopicsView) -> Partitions:
    return partitions.of(
        {topics.by_name[topic.topic].topic_id: topic.partitions for topic in named if topic.topic in topics.by_name}
    )


def _holding(member: Member, also: list[Partition]) -> Member:
    if not also:
        return member
    more: dict[bytes, set[int]] = {}
    for topic_id, number in also:
        more.setdefault(topic_id, set()).add(number)
    held = partitions.union(member.assigned, partitions.of(more))
    return replace(member, assigned=held)


# -- what becomes of the classic group ----------------------------------------------------------------------------------------


def tombstones(group: ClassicGroup) -> list[object]:
    """The records that end the classic group and its waiting requests.

    They are written even for a group that was never in the log. An owner may have lost sight of its last append. It then finds in
    the log what became of the group that it remembers.
    """
    answered = [changes.StrandedRequestAnswered(group.name, member_id, True) for member_id in group.joining]
    answered += [changes.StrandedRequestAnswered(group.name, member_id, False) for member_id in group.syncing]
    return [ClassicGroupRemoved(group.name), *answered]


def wakes(group: ClassicGroup) -> list[tuple[ParkKey, Reply]]:
    """Answers that make waiting members join again, now as members of the consumer group."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    answers: list[tuple[ParkKey, Reply]] = [
        (classic.join_park(group.name, member_id), classic.join_refused(again, member_id, waits.version))
        for member_id, waits in group.joining.items()
    ]
    answers += [(classic.sync_park(group.name, member_id), SyncGroupResponse(error_code=again)) for member_id in group.syncing]
    return answers


def timers(group: ClassicGroup) -> Mapping[TimerKey, int | None]:
    """The classic group's timers, ended."""
    ended: dict[TimerKey, int | None] = {classic.joins_key(group.name): None, classic.syncs_key(group.name): None}
    for member_id in [*group.members, *group.pending]:
        ended[classic.session_key(group.name, member_id)] = None
    return ended
