"""ConsumerGroupHeartbeat of who joins or is a member: what it asks for is noted, a target is made if that is due, and one step
is taken towards it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.consumer import leaves, partitions, reconciliation, subscriptions, target
from services.group_coordinator.core.consumer.draft import Decided, Draft, Refused
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import JOINS, LEAVES, LEAVES_FOR_A_WHILE, Member
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.consumer.reconciliation import Aim
from services.group_coordinator.core.consumer.settings import ConsumerSettings, heartbeat_interval_ms
from services.group_coordinator.core.happened import REPLACED
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.records import MemberState, TargetAssignmentChanged

MAKES_ITS_ID_FROM: Final = 1
"""Version of ConsumerGroupHeartbeat from which clients bring their member id."""
NOT_SAID: Final = -1


def invalid(request: ConsumerGroupHeartbeatRequest, version: int, settings: ConsumerSettings) -> Refused | None:
    """What is wrong with it, whatever the group is like."""
    epoch = request.member_epoch
    if _is_blank(request.member_id) and (version >= MAKES_ITS_ID_FROM or epoch > JOINS or epoch == LEAVES):
        return _wrong("MemberId can't be empty.")
    if _is_blank(request.group_id):
        return _wrong("GroupId can't be empty.")
    if request.instance_id is not None and _is_blank(request.instance_id):
        return _wrong("InstanceId can't be empty.")
    if request.rack_id is not None and _is_blank(request.rack_id):
        return _wrong("RackId can't be empty.")
    if epoch == JOINS:
        if request.rebalance_timeout_ms == NOT_SAID:
            return _wrong("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            return _wrong("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return _wrong("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        return _wrong("InstanceId can't be null.")
    elif epoch < LEAVES_FOR_A_WHILE:
        return _wrong("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        offered = ", ".join(settings.assignors)
        message = f"ServerAssignor {quoted(assignor)} is not supported. Supported assignors: {offered}."
        return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _is_blank(text: str) -> bool:
    """As Java's `String.trim` has it: whatever comes before "!" in Unicode."""
    return not text or max(text) <= " "


def _wrong(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def is_calm(group: Group, member: Member, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Neither does it ask for anything new, nor is anything to be done for it. Apart from what topics have to say."""
    facts = group.facts
    return (
        member.epoch == request.member_epoch == facts.assignment_epoch == facts.epoch
        and member.state is MemberState.STABLE
        and request.instance_id == member.instance_id
        and _asks_as_before(member, asked, request)
        and not (facts.rebalances_now and not group.unsettled)  # it ended in the log, and nobody noted that
    )


def _asks_as_before(member: Member, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Null is: as before."""
    return (
        (request.instance_id is None or request.instance_id == member.instance_id)
        and (request.rebalance_timeout_ms == NOT_SAID or request.rebalance_timeout_ms == member.rebalance_timeout_ms)
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and (request.subscribed_topic_names is None or _names(request.subscribed_topic_names) == member.topics)
        and (request.subscribed_topic_regex is None or request.subscribed_topic_regex == member.regex)
        and (request.server_assignor is None or request.server_assignor == member.assignor)
        and asked.client_id == member.client_id
        and asked.client_host == member.client_host
        and member.classic is None
    )


def decide_heartbeat(draft: Draft, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> Decided:
    group = draft.group
    member_id = request.member_id or asked.fresh_id
    if member_id not in group.members and len(group.members) >= draft.settings.size_max:
        return Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {draft.settings.size_max} members.",
        ).decided(request)
    found = _admitted(draft, request, member_id)
    if isinstance(found, Refused):
        return found.decided(request)
    joined = member_id not in group.members
    changed = _ask(draft, found, asked, request)
    if isinstance(changed, Refused):
        return changed.decided(request)
    look_at_topics(draft, member_id, joined=joined, changed=changed)
    if group.facts.epoch > group.facts.assignment_epoch:
        target.make(draft)
    before = group.members.get(member_id, found)
    after = reconcile(draft, before, request.topic_partitions, changed=changed)
    if isinstance(after, Refused):
        return after.decided(request)
    draft.heard_of(member_id)
    return draft.decision(answer(draft, request, after, told=after.assigned != found.assigned))


def answer(draft: Draft, request: ConsumerGroupHeartbeatRequest, member: Member, *, told: bool) -> ConsumerGroupHeartbeatResponse:
    return replied(request, member, heartbeat_interval_ms(draft.settings, draft.configs), told=told)


def replied(
    request: ConsumerGroupHeartbeatRequest, member: Member, interval_ms: int, *, told: bool
) -> ConsumerGroupHeartbeatResponse:
    """The assignment is in it if it is another one (`told`), or the member joins, or said all that there is to say."""
    if not told:
        told = request.member_epoch == JOINS or _says_all(request)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=_assignment(member.assigned) if told else None,
    )


def _says_all(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != NOT_SAID
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(assigned[topic_id])) for topic_id in sorted(assigned)])


def _names(asked: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(asked)))


# -- who asks ---------------------------------------------------------------------------------------------------------------


def _admitted(draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Member | Refused:
    """The member as it was before this request, or a new one."""
    group = draft.group
    if request.instance_id is not None:
        return _admitted_static(draft, request, request.instance_id, member_id)
    member = group.members.get(member_id)
    if request.member_epoch == JOINS:
        return member or Member(member_id)
    if member is None:
        return leaves.unknown(group.name, member_id)
    return _fenced(member, request) or member


def _admitted_static(draft: Draft, request: ConsumerGroupHeartbeatRequest, instance_id: str, member_id: str) -> Member | Refused:
    group = draft.group
    if request.member_epoch != JOINS:
        member = leaves.held_by(group, instance_id, member_id)
        return member if isinstance(member, Refused) else _fenced(member, request) or member
    holder_id = group.statics.get(instance_id)
    if holder_id is None:
        return group.members.get(member_id) or Member(member_id)
    holder = group.members[holder_id]
    if holder.classic is None and not holder.is_away:
        if holder_id == member_id:
            return holder  # it did not hear the answer, or was fenced by its own client: nobody else has this member id
        return Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {quoted(member_id)} with instance id {quoted(instance_id)} cannot join the group because the "
            f"instance id is owned by {quoted(holder_id)} member.",
        )
    return take_over(draft, holder, member_id)


def take_over(draft: Draft, former: Member, member_id: str) -> Member:
    """A static member comes back: what was kept for it is its own again."""
    kept = draft.group.target(former.member_id)
    member = replace(former, member_id=member_id, epoch=JOINS, previous_epoch=JOINS)
    leaves.remove(draft, former, REPLACED)
    draft.put(member.asks(draft.name))
    draft.put(TargetAssignmentChanged(draft.name, member_id, partitions.written(kept)))
    draft.put(member.has(draft.name))
    return draft.group.members[member_id]


def _fenced(member: Member, request: ConsumerGroupHeartbeatRequest) -> Refused | None:
    """Who comes with its former epoch, and owns nothing that it may not, did not hear the last answer."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        size = "greater"
    elif epoch == member.previous_epoch and reconciliation.is_within(request.topic_partitions, member.assigned):
        return None
    else:
        size = "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


# -- what it asks for -------------------------------------------------------------------------------------------------------


def _ask(draft: Draft, found: Member, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> str | Refused:
    """Returns in words what is new about its subscription; "" if nothing is."""
    if found.member_id in draft.group.members and _asks_as_before(found, asked, request):
        return ""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    member = replace(
        found,
        instance_id=request.instance_id or found.instance_id,
        rack_id=request.rack_id or found.rack_id,
        rebalance_timeout_ms=found.rebalance_timeout_ms
        if request.rebalance_timeout_ms == NOT_SAID
        else request.rebalance_timeout_ms,
        topics=found.topics if names is None else _names(names),
        regex=found.regex if pattern is None else pattern,
        assignor=request.server_assignor or found.assignor,
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=None,
    )
    draft.put(member.asks(draft.name))
    if member.regex != found.regex:
        refused = subscriptions.change_regex(draft, found.regex, member.regex)
        if refused is not None:
            return refused
    if member.topics != found.topics or (member.regex or "") != (found.regex or ""):
        return f"member {member.member_id} asks for other topics"
    return ""


def look_at_topics(draft: Draft, member_id: str, *, joined: bool, changed: str) -> None:
    """`changed`: in words what is new about the subscription of that member. The group epoch rises if anything is."""
    group = draft.group
    facts = group.facts
    if facts.epoch and not changed and subscriptions.is_current(group, draft.topics, draft.now_ms, draft.settings):
        return
    elsewhere = subscriptions.refresh(draft)
    if joined and (changed or not facts.epoch):
        draft.bump(f"member {member_id} joined")
    elif changed or elsewhere or not facts.epoch:
        draft.bump(changed or elsewhere)


# -- what it gets -----------------------------------------------------------------------------------------------------------


def reconcile(draft: Draft, member: Member, owned: Sequence[TopicPartitions] | None, *, changed: str) -> Member | Refused:
    """One step towards the target. `owned`: what it says that it owns; None: it did not say."""
    group = draft.group
    epoch = group.facts.assignment_epoch
    if not changed and member.has_reached(epoch):
        return member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            return Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            )
        member = replace(member, epoch=epoch)
    subscribed = subscriptions.topic_ids(group, member, draft.topics)
    aim = Aim(epoch, group.target(member.member_id), subscribed, bool(changed))
    after = reconciliation.reconciled(member, aim, owned, group.holders.get)
    if after != member:
        draft.have(member, after)
        if after.state is MemberState.UNREVOKED_PARTITIONS and after.classic is None:
            draft.awaits_revocation(after)
        else:
            draft.awaits_nothing(after.member_id)
    return after
