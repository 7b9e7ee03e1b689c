"""ConsumerGroupHeartbeat: it stores the member's metadata, makes a target assignment if one is due, and takes one step towards
it."""

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
from services.group_coordinator.core.consumer import leaves, partitions, reconciliation, subscriptions, target
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import Decided, GroupDecision, Refused
from services.group_coordinator.core.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    Member,
)
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.consumer.reconciliation import Goal
from services.group_coordinator.core.model import reasons
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings, heartbeat_interval_ms
from services.group_coordinator.core.model.group_events import REPLACED
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import MemberState, TargetAssignmentChanged
from services.group_coordinator.core.model.requests import RequestEvent

CLIENT_MEMBER_ID_FROM: Final = 1
"""Version of ConsumerGroupHeartbeat from which clients choose their member id."""
NOT_PROVIDED: Final = -1


def invalid(request: ConsumerGroupHeartbeatRequest, version: int, settings: ConsumerSettings) -> Refused | None:
    """The refusal of a request that no group could accept, or None."""
    epoch = request.member_epoch
    if _is_blank(request.member_id) and (
        version >= CLIENT_MEMBER_ID_FROM or epoch > JOIN_GROUP_MEMBER_EPOCH or epoch == LEAVE_GROUP_MEMBER_EPOCH
    ):
        return _wrong("MemberId can't be empty.")
    if _is_blank(request.group_id):
        return _wrong("GroupId can't be empty.")
    if request.instance_id is not None and _is_blank(request.instance_id):
        return _wrong("InstanceId can't be empty.")
    if request.rack_id is not None and _is_blank(request.rack_id):
        return _wrong("RackId can't be empty.")
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        if request.rebalance_timeout_ms == NOT_PROVIDED:
            return _wrong("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            return _wrong("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return _wrong("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None:
        return _wrong("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return _wrong("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        offered = ", ".join(settings.assignors)
        message = f"ServerAssignor {quoted(assignor)} is not supported. Supported assignors: {offered}."
        return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _is_blank(text: str) -> bool:
    """Whether the text is blank, as Java's `String.trim` has it: all characters up to the space."""
    return not text or max(text) <= " "


def _wrong(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def is_idle(group: Group, member: Member, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the heartbeat changes nothing and the member needs nothing, apart from what new topics may bring."""
    facts = group.facts
    return (
        member.epoch == request.member_epoch == facts.assignment_epoch == facts.epoch
        and member.state is MemberState.STABLE
        and request.instance_id == member.instance_id
        and _is_unchanged(member, event, request)
        and not (
            facts.rebalances_now and not group.unreconciled
        )  # the rebalance ended in the log, and the group has not noted it
    )


def _is_unchanged(member: Member, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member's metadata is unchanged. Null means unchanged."""
    return (
        (request.instance_id is None or request.instance_id == member.instance_id)
        and (request.rebalance_timeout_ms == NOT_PROVIDED or request.rebalance_timeout_ms == member.rebalance_timeout_ms)
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and (request.subscribed_topic_names is None or _names(request.subscribed_topic_names) == member.topics)
        and (request.subscribed_topic_regex is None or request.subscribed_topic_regex == member.regex)
        and (request.server_assignor is None or request.server_assignor == member.assignor)
        and event.client_id == member.client_id
        and event.client_host == member.client_host
        and member.classic is None
    )


def decide_heartbeat(group_decision: GroupDecision, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> Decided:
    group, group_decision.describes = group_decision.group, event.describes
    member_id = request.member_id or event.fresh_id
    if member_id not in group.members and len(group.members) >= group_decision.settings.size_max:
        return Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {group_decision.settings.size_max} members.",
        ).decided(request)
    admitted = _get_or_create_member(group_decision, request, member_id)
    if isinstance(admitted, Refused):
        return admitted.decided(request)
    joined = member_id not in group.members
    changed = _put_metadata(group_decision, admitted, event, request)
    if isinstance(changed, Refused):
        return changed.decided(request)
    check_topics(group_decision, member_id, joined=joined, changed=changed)
    if group.facts.epoch > group.facts.assignment_epoch:
        target.make(group_decision)
    before = group.members.get(member_id, admitted)
    after = reconcile(group_decision, before, request.topic_partitions, changed=changed)
    if isinstance(after, Refused):
        return after.decided(request)
    group_decision.schedule_session_timeout(member_id)
    return group_decision.decision(answer(group_decision, request, after, with_assignment=after.assigned != admitted.assigned))


def answer(
    group_decision: GroupDecision, request: ConsumerGroupHeartbeatRequest, member: Member, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    return replied(
        request, member, heartbeat_interval_ms(group_decision.settings, group_decision.configs), with_assignment=with_assignment
    )


def replied(
    request: ConsumerGroupHeartbeatRequest, member: Member, interval_ms: int, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    """The reply. It has the assignment if that changed (`with_assignment`), the member joins, or the request is a full one."""
    if not with_assignment:
        with_assignment = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH or _is_full_request(request)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=_assignment(member.assigned) if with_assignment else None,
    )


def _is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != NOT_PROVIDED
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(assigned[topic_id])) for topic_id in sorted(assigned)])


def _names(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


# -- the member -------------------------------------------------------------------------------------------------------------


def _get_or_create_member(
    group_decision: GroupDecision, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> Member | Refused:
    """The member as it was before this request, or a new one."""
    group = group_decision.group
    if request.instance_id is not None:
        return _get_or_create_static_member(group_decision, request, request.instance_id, member_id)
    member = group.members.get(member_id)
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return member or Member(member_id)
    if member is None:
        return leaves.unknown(group.name, member_id)
    return _fenced(member, request) or member


def _get_or_create_static_member(
    group_decision: GroupDecision, request: ConsumerGroupHeartbeatRequest, instance_id: str, member_id: str
) -> Member | Refused:
    group = group_decision.group
    if request.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
        member = leaves.held_by(group, instance_id, member_id)
        return member if isinstance(member, Refused) else _fenced(member, request) or member
    holder_id = group.statics.get(instance_id)
    if holder_id is None:
        return group.members.get(member_id) or Member(member_id)
    holder = group.members[holder_id]
    if holder.classic is None and not holder.is_away:
        if holder_id == member_id:
            return holder  # it did not get the answer, or its own client fenced it: no other client has this member id
        return Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {quoted(member_id)} with instance id {quoted(instance_id)} cannot join the group because the "
            f"instance id is owned by {quoted(holder_id)} member.",
        )
    return replace_static_member(group_decision, holder, member_id)


def replace_static_member(group_decision: GroupDecision, former: Member, member_id: str) -> Member:
    """Replaces a static member that comes back. It gets the target assignment of its former member id."""
    kept = group_decision.group.target(former.member_id)
    member = replace(former, member_id=member_id, epoch=JOIN_GROUP_MEMBER_EPOCH, previous_epoch=JOIN_GROUP_MEMBER_EPOCH)
    leaves.remove(group_decision, former, REPLACED)
    group_decision.put(member.metadata_record(group_decision.name))
    group_decision.put(TargetAssignmentChanged(group_decision.name, member_id, partitions.written(kept)))
    group_decision.put(member.assignment_record(group_decision.name))
    return group_decision.group.members[member_id]


def _fenced(member: Member, request: ConsumerGroupHeartbeatRequest) -> Refused | None:
    """The refusal of a wrong member epoch. A member with its previous epoch that owns only its assignment did not get the last
    answer, and is accepted."""
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


# -- its subscription -------------------------------------------------------------------------------------------------------


def _put_metadata(
    group_decision: GroupDecision, before: Member, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
) -> str | Refused:
    """Stores the member's metadata. Returns in words what is new about its subscription; "" if nothing is."""
    if before.member_id in group_decision.group.members and _is_unchanged(before, event, request):
        return ""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    member = replace(
        before,
        instance_id=request.instance_id or before.instance_id,
        rack_id=request.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms
        if request.rebalance_timeout_ms == NOT_PROVIDED
        else request.rebalance_timeout_ms,
        topics=before.topics if names is None else _names(names),
        regex=before.regex if pattern is None else pattern,
        assignor=request.server_assignor or before.assignor,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )
    group_decision.put(member.metadata_record(group_decision.name))
    if member.regex != before.regex:
        refused = subscriptions.change_regex(group_decision, before.regex, member.regex)
        if refused is not None:
            return refused
    return subscriptions.change_in_words(before, member)


def check_topics(group_decision: GroupDecision, member_id: str, *, joined: bool, changed: str) -> None:
    """Raises the group epoch if subscriptions or topics changed. `changed` says in words what is new about this member's
    subscription."""
    group = group_decision.group
    facts = group.facts
    if (
        facts.epoch
        and not changed
        and subscriptions.is_current(group, group_decision.topics, group_decision.now_ms, group_decision.settings)
    ):
        return
    elsewhere = subscriptions.refresh(group_decision)
    if joined and (changed or not facts.epoch):
        group_decision.bump(reasons.joined(member_id))
    elif changed or elsewhere or not facts.epoch:
        group_decision.bump(changed or elsewhere)


# -- its assignment ---------------------------------------------------------------------------------------------------------


def reconcile(
    group_decision: GroupDecision, member: Member, owned: Sequence[TopicPartitions] | None, *, changed: str
) -> Member | Refused:
    """The member after one step towards its target. `owned` are the partitions that it reports; None if it does not report."""
    group = group_decision.group
    epoch = group.facts.assignment_epoch
    if not changed and member.is_reconciled_to(epoch):
        return member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            return Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            )
        member = replace(member, epoch=epoch)
    subscribed = subscriptions.topic_ids(group, member, group_decision.topics)
    goal = Goal(epoch, group.target(member.member_id), subscribed, bool(changed))
    after = reconciliation.reconciled(member, goal, owned, group.holders.get)
    if after != member:
        group_decision.put_assignment(member, after)
        if after.state is MemberState.UNREVOKED_PARTITIONS and after.classic is None:
            group_decision.schedule_rebalance_timeout(after)
        else:
            group_decision.cancel_rebalance_timeout(after.member_id)
    return after
