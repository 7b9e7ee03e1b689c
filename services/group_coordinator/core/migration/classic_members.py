"""Members that speak the classic protocol in a group of the consumer protocol (KIP-848, "Supporting the classic protocol").

A JoinGroup takes one step towards the target and is answered at once: the generation is the member's epoch, and nobody leads. A
SyncGroup tells what the member has. A Heartbeat says 27 when another step can be taken; what the member owns it says in its next
JoinGroup. Clients that stop before they join own nothing then (eager), others own what they say (cooperative).
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
from services.group_coordinator.core.classic.joins import KNOWS_ITS_ID_FROM, Join
from services.group_coordinator.core.consumer import heartbeats, leaves, partitions, subscriptions, target
from services.group_coordinator.core.consumer.draft import Draft, Refused
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.happened import BY_OPERATOR, LEFT, fenced
from services.group_coordinator.core.quoted import listed
from services.group_coordinator.core.records import ClassicProtocol, MemberState, SpeaksClassic
from services.group_coordinator.core.topics_view import TopicsView

NO_REGEX: Final = ""
"""As Kafka writes it of these members."""


class RefusedJoin(Exception):
    """With an error code, and the member id that the client is told."""

    def __init__(self, error: ErrorCode, member_id: str) -> None:
        super().__init__(error, member_id)
        self.error, self.member_id = error, member_id


# -- who it is ----------------------------------------------------------------------------------------------------------------


def found(group: Group, member_id: str, instance_id: str | None) -> Member | ErrorCode:
    """A member that speaks the classic protocol."""
    member = named(group, member_id, instance_id)
    if isinstance(member, Member) and member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member


def named(group: Group, member_id: str, instance_id: str | None) -> Member | ErrorCode:
    if instance_id is None:
        return group.members.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = leaves.held_by(group, instance_id, member_id)
    return member.error if isinstance(member, Refused) else member


def supports(group: Group, protocol_type: str, protocols: tuple[str, ...]) -> bool:
    """Whether one that offers these could speak with all others of its kind, should the group become classic."""
    size = group.classics.get(None, 0)
    return protocol_type == PROTOCOL_TYPE and any(group.classics.get(name, 0) == size for name in protocols)


# -- JoinGroup ----------------------------------------------------------------------------------------------------------------


def join(draft: Draft, joining: Join) -> Member:
    """The member as it is next. Raises RefusedJoin; then nothing of `draft` may be used."""
    request, asked, group = joining.request, joining.asked, draft.group
    member_id = request.member_id or asked.fresh_id
    if member_id not in group.members and len(group.members) >= draft.settings.size_max:
        raise RefusedJoin(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if not supports(group, request.protocol_type, tuple([name for name, _ in joining.protocols])):
        raise RefusedJoin(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if not request.member_id and request.group_instance_id is None and asked.version >= KNOWS_ITS_ID_FROM:
        raise RefusedJoin(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    try:
        subscription = read_subscription(joining.protocols[0].metadata)
    except ProtocolError:
        raise RefusedJoin(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id) from None
    before = _admitted(draft, joining, member_id)
    joined = member_id not in group.members
    changed = _ask(draft, before, joining, subscription)
    heartbeats.look_at_topics(draft, member_id, joined=joined, changed=changed)
    if group.facts.epoch > group.facts.assignment_epoch:
        target.make(draft)
    owned = owned_by(subscription, draft.topics)
    member = heartbeats.reconcile(draft, group.members[member_id], owned, changed=changed)
    assert isinstance(member, Member), "a classic member is in a known state"
    draft.heard_of(member_id)
    return member


def _admitted(draft: Draft, joining: Join, member_id: str) -> Member:
    group, request = draft.group, joining.request
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)  # also one whose id was given by a classic group
    if request.member_id:
        known = named(group, member_id, instance_id)
        if isinstance(known, ErrorCode):
            raise RefusedJoin(known, member_id)
        return known
    holder = group.statics.get(instance_id)
    return Member(member_id) if holder is None else heartbeats.take_over(draft, group.members[holder], member_id)


def _ask(draft: Draft, before: Member, joining: Join, subscription: ConsumerProtocolSubscription) -> str:
    """Returns in words what is new about its subscription; "" if nothing is."""
    asked, request = joining.asked, joining.request
    member = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex=NO_REGEX,
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=SpeaksClassic(
            request.session_timeout_ms, tuple([ClassicProtocol(name, metadata) for name, metadata in joining.protocols])
        ),
    )
    if member != before or member.member_id not in draft.group.members:
        draft.put(member.asks(draft.name))
    if (before.regex or "") != NO_REGEX:
        subscriptions.change_regex(draft, before.regex, NO_REGEX)
    elif member.topics == before.topics:
        return ""
    return f"member {member.member_id} asks for other topics{joining.because}"


def owned_by(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> list[TopicPartitions]:
    """Of the topics that there are."""
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
    """The one that it wants most."""
    assert member.classic is not None
    return member.classic.protocols[0]


def sync_error(group: Group, member: Member, request: SyncGroupRequest) -> ErrorCode:
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol_of(member).name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # One that is to give something up has to hear of it first.
    if group.facts.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def is_to_join(group: Group, member: Member) -> bool:
    """Another step can be taken, or has to be."""
    if member.epoch < group.facts.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: Group, member: Member) -> bool:
    return any(
        number not in member.assigned.get(topic_id, ()) and (topic_id, number) in group.holders
        for topic_id, number in partitions.each(group.target(member.member_id))
    )


def assignment(assigned: Partitions, topics: TopicsView, subscription: bytes) -> bytes:
    """In the version in which the member asked. Topics that are gone are left out."""
    by_name = {topics.by_id[topic_id].name: numbers for topic_id, numbers in assigned.items() if topic_id in topics.by_id}
    told = tuple([TopicPartition(name, tuple(sorted(by_name[name]))) for name in sorted(by_name)])
    return write_assignment(ConsumerProtocolAssignment(told), version_of(subscription))


def leave(draft: Draft, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    """Whichever protocol they speak: as in Kafka, an operator may remove any."""
    errors: list[ErrorCode] = []
    reasons: list[str] = []
    for who in leaving:
        by_operator = who.group_instance_id is not None and not who.member_id
        holder = draft.group.statics.get(who.group_instance_id or "") or "" if by_operator else who.member_id
        member = named(draft.group, holder, who.group_instance_id)
        if isinstance(member, ErrorCode):
            errors.append(member)
            draft.happened += fenced(draft.name, who.member_id, who.group_instance_id, member)
            continue
        leaves.remove(draft, member, BY_OPERATOR if by_operator else LEFT)
        subscriptions.without(draft, member)
        because = f": {who.reason}" if who.reason else ""
        name = f"static member {who.group_instance_id} was removed" if by_operator else f"member {member.member_id} left"
        reasons.append(f"{name}{because}")
        errors.append(ErrorCode.NONE)
    if reasons:
        draft.bump(listed(reasons))
    return errors
