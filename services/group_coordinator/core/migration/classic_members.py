"""Classic members of a consumer group (KIP-848, "Supporting the classic protocol").

A JoinGroup takes one step towards the target and is answered at once. The generation is the member's epoch, and there is no
leader. A SyncGroup returns the member's assignment. A Heartbeat is answered REBALANCE_IN_PROGRESS when another step is possible.
The member reports its partitions in its next JoinGroup. Eager clients own none by then; cooperative clients own those that they
report.
"""

from dataclasses import replace
from typing import Final

from libs.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_subscription,
    version_of,
    write_assignment,
)
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import TopicPartitions
from libs.wire.messages.join_group import JoinGroupResponse
from libs.wire.messages.leave_group import MemberIdentity
from libs.wire.messages.sync_group import SyncGroupRequest
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic.joins import MEMBER_ID_REQUIRED_FROM, Join
from services.group_coordinator.core.consumer import heartbeats, leaves, partitions, subscriptions, target
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import GroupDecision, Refused
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.group_events import BY_OPERATOR, LEFT, fenced
from services.group_coordinator.core.model.quoting import listed
from services.group_coordinator.core.model.records import ClassicMemberMetadata, ClassicProtocol, MemberState
from services.group_coordinator.core.model.topics_view import TopicsView

NO_REGEX: Final = ""
"""The regular expression of these members, as Kafka writes it."""


class RefusedJoin(Exception):
    """A refused JoinGroup, with an error code and the member id of the reply."""

    def __init__(self, error: ErrorCode, member_id: str) -> None:
        super().__init__(error, member_id)
        self.error, self.member_id = error, member_id


# -- the member --------------------------------------------------------------------------------------------------------------


def find_classic_member(group: Group, member_id: str, instance_id: str | None) -> Member | ErrorCode:
    """The classic member with that id, or an error."""
    member = find_member(group, member_id, instance_id)
    if isinstance(member, Member) and member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member


def find_member(group: Group, member_id: str, instance_id: str | None) -> Member | ErrorCode:
    if instance_id is None:
        return group.members.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = leaves.held_by(group, instance_id, member_id)
    return member.error if isinstance(member, Refused) else member


def supports(group: Group, protocol_type: str, protocols: tuple[str, ...]) -> bool:
    """Whether a member that offers these protocols has one in common with all classic members, in case the group
    becomes classic."""
    size = group.classics.get(None, 0)
    return protocol_type == PROTOCOL_TYPE and any(group.classics.get(name, 0) == size for name in protocols)


# -- JoinGroup ----------------------------------------------------------------------------------------------------------------


def join(group_decision: GroupDecision, joining: Join) -> Member:
    """The member after a JoinGroup. Raises RefusedJoin; `group_decision` must not be used then."""
    request, event, group = joining.request, joining.event, group_decision.group
    group_decision.describes = event.describes
    member_id = request.member_id or event.fresh_id
    if member_id not in group.members and len(group.members) >= group_decision.settings.size_max:
        raise RefusedJoin(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if not supports(group, request.protocol_type, tuple([name for name, _ in joining.protocols])):
        raise RefusedJoin(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if not request.member_id and request.group_instance_id is None and event.version >= MEMBER_ID_REQUIRED_FROM:
        raise RefusedJoin(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    try:
        subscription = read_subscription(joining.protocols[0].metadata)
    except ProtocolError:
        raise RefusedJoin(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id) from None
    before = _get_or_create_member(group_decision, joining, member_id)
    joined = member_id not in group.members
    changed = _put_metadata(group_decision, before, joining, subscription)
    heartbeats.check_topics(group_decision, member_id, joined=joined, changed=changed)
    if group.facts.epoch > group.facts.assignment_epoch:
        target.make(group_decision)
    owned = owned_by(subscription, group_decision.topics)
    member = heartbeats.reconcile(group_decision, group.members[member_id], owned, changed=changed)
    assert isinstance(member, Member), "a classic member is in a known state"
    group_decision.schedule_session_timeout(member_id)
    return member


def _get_or_create_member(group_decision: GroupDecision, joining: Join, member_id: str) -> Member:
    group, request = group_decision.group, joining.request
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)  # also a member id that a classic group gave
    if request.member_id:
        known = find_member(group, member_id, instance_id)
        if isinstance(known, ErrorCode):
            raise RefusedJoin(known, member_id)
        return known
    holder = group.statics.get(instance_id)
    return (
        Member(member_id)
        if holder is None
        else heartbeats.replace_static_member(group_decision, group.members[holder], member_id)
    )


def _put_metadata(
    group_decision: GroupDecision, before: Member, joining: Join, subscription: ConsumerProtocolSubscription
) -> str:
    """Stores the member's metadata. Returns in words what is new about its subscription; "" if nothing is."""
    event, request = joining.event, joining.request
    member = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex=NO_REGEX,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMemberMetadata(
            request.session_timeout_ms, tuple([ClassicProtocol(name, metadata) for name, metadata in joining.protocols])
        ),
    )
    if member != before or member.member_id not in group_decision.group.members:
        group_decision.put(member.metadata_record(group_decision.name))
    if (before.regex or "") != NO_REGEX:
        subscriptions.change_regex(group_decision, before.regex, NO_REGEX)
    return subscriptions.change_in_words(before, member, request.reason)


def owned_by(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> list[TopicPartitions]:
    """The owned partitions of existing topics."""
    return [
        TopicPartitions(topics.by_name[owned.topic].topic_id, list(owned.partitions))
        for owned in subscription.owned_partitions
        if owned.topic in topics.by_name
    ]


def joined_reply(member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_of(member).name,
        member_id=member.member_id,
    )


# -- SyncGroup, Heartbeat, LeaveGroup -----------------------------------------------------------------------------------------


def protocol_of(member: Member) -> ClassicProtocol:
    """The member's first choice of protocol."""
    assert member.classic is not None
    return member.classic.protocols[0]


def sync_error(group: Group, member: Member, request: SyncGroupRequest) -> ErrorCode:
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol_of(member).name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # A member that has to revoke partitions has to hear of that first.
    if group.facts.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def is_to_join(group: Group, member: Member) -> bool:
    """Whether the member has to join again: another step is possible or due."""
    if member.epoch < group.facts.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: Group, member: Member) -> bool:
    return any(
        number not in member.assigned.get(topic_id, ()) and (topic_id, number) in group.holders
        for topic_id, number in partitions.each(group.target(member.member_id))
    )


def assignment(assigned: Partitions, topics: TopicsView, subscription: bytes) -> bytes:
    """The assignment as bytes, in the version of the member's subscription. Deleted topics are omitted."""
    by_name = {topics.by_id[topic_id].name: numbers for topic_id, numbers in assigned.items() if topic_id in topics.by_id}
    by_topic = tuple([TopicPartition(name, tuple(sorted(by_name[name]))) for name in sorted(by_name)])
    return write_assignment(ConsumerProtocolAssignment(by_topic), version_of(subscription))


def leave(group_decision: GroupDecision, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    """Removes members of either protocol. As in Kafka, an operator may remove any static member."""
    errors: list[ErrorCode] = []
    departures: list[str] = []
    for identity in leaving:
        by_operator = identity.group_instance_id is not None and not identity.member_id
        holder = group_decision.group.statics.get(identity.group_instance_id or "") or "" if by_operator else identity.member_id
        member = find_member(group_decision.group, holder, identity.group_instance_id)
        if isinstance(member, ErrorCode):
            errors.append(member)
            group_decision.events += fenced(group_decision.name, identity.member_id, identity.group_instance_id, member)
            continue
        leaves.remove(group_decision, member, BY_OPERATOR if by_operator else LEFT)
        subscriptions.without(group_decision, member)
        departures.append(_departure(identity, member, by_operator=by_operator))
        errors.append(ErrorCode.NONE)
    if departures:
        group_decision.bump(listed(departures))
    return errors


def _departure(identity: MemberIdentity, member: Member, *, by_operator: bool) -> str:
    if by_operator:
        return reasons.removed_by_operator(identity.group_instance_id, identity.reason)
    if identity.reason:
        return reasons.left(member.member_id, identity.reason)
    return reasons.left_silently(member.member_id, member.rebalance_timeout_ms)
