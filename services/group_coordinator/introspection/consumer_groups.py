"""The view of a consumer group (KIP-848) for operators, as JSON. Times in ms are wall time."""

from typing import Any

from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.consumer.member import Member
from services.group_coordinator.core.consumer.partitions import Partitions
from services.group_coordinator.core.model.topics_view import TopicsView


def brief(group: Group, now_ms: int) -> dict[str, Any]:
    facts = group.facts
    return {
        "kind": "consumer",
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


def details(group: Group, topics: TopicsView) -> dict[str, Any]:
    """The details of a group, beyond `brief`. "members" lists the members in place of their number. Deleted topics
    appear by id."""
    return {
        "protocol_type": "consumer",
        "assignment_epoch": group.facts.assignment_epoch,
        "regular_expressions": {regex: sorted(resolved.topics) for regex, resolved in group.regexes.items()},
        "members": [_member(group, member, topics) for member in group.members.values()],
    }


def _member(group: Group, member: Member, topics: TopicsView) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack_id or None,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "speaks": "consumer" if member.classic is None else "classic",
        "subscribed": list(member.topics),
        "regular_expression": member.regex or None,
        "epoch": member.epoch,
        "state": member.state.name.lower(),
        "assigned": _named(member.assigned, topics),
        "to_give_up": _named(member.pending, topics),
        "to_have": _named(group.target(member.member_id), topics),
    }


def _named(partitions: Partitions, topics: TopicsView) -> dict[str, list[int]]:
    by_id = topics.by_id
    return {
        by_id[topic_id].name if topic_id in by_id else topic_id.hex(): sorted(numbers) for topic_id, numbers in partitions.items()
    }
