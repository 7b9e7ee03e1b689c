"""The view of a classic group for operators, as JSON. Times in ms are wall time."""

from typing import Any

from libs.wire.consumer_protocol import PROTOCOL_TYPE, read_assignment
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import session_key
from services.group_coordinator.core.classic.member import Member
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.group_kind import CLASSIC
from services.group_coordinator.introspection.sessions import Deadlines, awaited, session


def brief(group: Group, now_ms: int) -> dict[str, Any]:
    facts = group.facts
    return {
        "kind": CLASSIC,
        "state": facts.state.value,
        "members": len(group.members),
        "generation": facts.generation,
        "rebalances": {
            "count": facts.rebalances,
            "seconds": facts.rebalanced_ms(now_ms) / 1000,
            "under_way": facts.rebalances_now,
            "last_reason": facts.reason or None,
            "last_began_ms": facts.begun_ms if facts.begun_ms >= 0 else None,
        },
    }


def details(group: Group, deadlines: Deadlines) -> dict[str, Any]:
    """The details of a group, beyond `brief`. "members" lists the members in place of their number."""
    facts = group.facts
    return {
        "since_ms": facts.since_ms if facts.since_ms >= 0 else None,
        "protocol_type": facts.protocol_type,
        "protocol": facts.protocol,
        "leader": facts.leader,
        "members": [_member(group, member, deadlines) for member in group.members.values()],
        "waiting_with_a_member_id": len(group.pending),
    }


def _member(group: Group, member: Member, deadlines: Deadlines) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        **session(deadlines(session_key(group.name, member.member_id)), member.session_timeout_ms),
        "awaited": _awaited(group, member),
        "waits_for": "others to join" if member.member_id in group.joining else _syncs(group, member),
        "assigned": _assigned(group, member),
    }


def _awaited(group: Group, member: Member) -> dict[str, Any] | None:
    """The request that the rebalance awaits of this member, or None."""
    facts = group.facts
    if facts.state is State.PREPARING_REBALANCE and member.member_id not in group.joining:
        return awaited("JoinGroup", facts.join_due_ms)
    if member.member_id in group.unsynced:
        leads = facts.state is State.COMPLETING_REBALANCE and member.member_id == facts.leader
        return awaited("SyncGroup with the assignment" if leads else "SyncGroup", facts.sync_due_ms)
    return None


def _syncs(group: Group, member: Member) -> str | None:
    return "the leader's assignment" if member.member_id in group.syncing else None


def _assigned(group: Group, member: Member) -> object:
    """A consumer's partitions by topic; for other protocols, whose assignments are opaque, the number of bytes."""
    if group.facts.protocol_type == PROTOCOL_TYPE:
        if not member.assignment:
            return {}
        try:
            return {topic: list(partitions) for topic, partitions in _partitions(member.assignment)}
        except ProtocolError:
            pass
    return {"bytes": len(member.assignment)}


def _partitions(assignment: bytes) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.topic, each.partitions) for each in read_assignment(assignment).assigned_partitions]
