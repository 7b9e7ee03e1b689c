"""The view of a consumer group (KIP-848) for operators, as JSON. Times in ms are wall time."""

from collections.abc import Callable
from typing import Any

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.group_decision import revocation_key, session_key
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.migration.expected_requests import ExpectedRequest
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER
from services.group_coordinator.core.model.records import MemberState
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.introspection.sessions import Deadlines, awaited, session

SessionTimeout = Callable[[Member], int]


def brief(group: Group, now_ms: int) -> dict[str, Any]:
    facts = group.facts
    return {
        "kind": CONSUMER,
        "state": group.state.value,
        "members": len(group.members),
        "generation": facts.epoch,
        "rebalances": {
            "count": facts.rebalances,
            "seconds": facts.rebalanced_ms(now_ms) / 1000,
            "under_way": facts.rebalances_now,
            "last_reason": facts.reason or None,
            "last_began_ms": facts.begun_ms if facts.begun_ms >= 0 else None,
        },
    }


def details(group: Group, topics: TopicsView, session_timeout_ms: SessionTimeout, deadlines: Deadlines) -> dict[str, Any]:
    """The details of a group, beyond `brief`. "members" lists the members in place of their number. Deleted topics
    appear by id. `session_timeout_ms` is of a member."""
    return {
        "protocol_type": PROTOCOL_TYPE,
        "assignment_epoch": group.facts.assignment_epoch,
        "regular_expressions": {regex: sorted(resolved.topics) for regex, resolved in group.regexes.items()},
        "members": [
            {**_member(group, member, topics), **_liveness(group, member, session_timeout_ms(member), deadlines)}
            for member in group.members.values()
        ],
    }


def _member(group: Group, member: Member, topics: TopicsView) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack_id or None,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "speaks": CONSUMER if member.classic is None else CLASSIC,
        "subscribed": list(member.topics),
        "regular_expression": member.regex or None,
        "epoch": member.epoch,
        "state": member.state.name.lower(),
        "assigned": _named(member.assigned, topics),
        "to_give_up": _named(member.pending, topics),
        "to_have": _named(group.target(member.member_id), topics),
    }


def _liveness(group: Group, member: Member, session_timeout_ms: int, deadlines: Deadlines) -> dict[str, Any]:
    """When the member was heard, and the request that the group awaits of it."""
    ends_ms = deadlines(session_key(group.name, member.member_id))
    return {**session(ends_ms, session_timeout_ms), "awaited": _awaited(group, member, ends_ms, deadlines)}


def _awaited(group: Group, member: Member, session_ends_ms: int | None, deadlines: Deadlines) -> dict[str, Any] | None:
    if member.is_away:
        return awaited("a heartbeat of the static member that left", session_ends_ms)
    for joins, request in ((True, "JoinGroup"), (False, "SyncGroup")):
        if (due_ms := deadlines(ExpectedRequest(group.name, member.member_id, joins).timer)) is not None:
            return awaited(request, due_ms)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return awaited("a heartbeat without the partitions to give up", deadlines(revocation_key(group.name, member.member_id)))
    if member.epoch < group.facts.assignment_epoch:
        return awaited("a heartbeat, to hear its new assignment", session_ends_ms)
    return None


def _named(partitions: Partitions, topics: TopicsView) -> dict[str, list[int]]:
    by_id = topics.by_id
    return {
        by_id[topic_id].name if topic_id in by_id else topic_id.hex(): sorted(numbers) for topic_id, numbers in partitions.items()
    }
