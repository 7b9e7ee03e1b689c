"""The reasons of rebalances, in words for operators. The table in docs/groups.md lists them by cause.

A member's departure has no reason in the consumer protocol (KIP-848), and none in a LeaveGroup below version 5 (KIP-800). For
those clients the words name the causes that remain, and the limit that the client itself watches.
"""

from collections.abc import Collection

from services.group_coordinator.core.model.quoting import listed, quoted


def joined(member_id: str, said: str | None = None) -> str:
    return _with(f"member {member_id} joined", said)


def left(member_id: str, said: str | None = None) -> str:
    return _with(f"member {member_id} left", said)


def left_silently(member_id: str, rebalance_timeout_ms: int) -> str:
    """The words for a consumer that gave no reason. Consumers send their `max.poll.interval.ms` as rebalance timeout."""
    exceeded = f"exceeded max.poll.interval.ms ({rebalance_timeout_ms})"
    return f"member {member_id} left: it closed, unsubscribed or {exceeded}, its client does not say which"


def removed_by_operator(instance_id: str | None, said: str | None = None) -> str:
    return _with(f"static member {instance_id} was removed", said)


def was_silent(member_id: str, session_timeout_ms: int) -> str:
    """The words for a member that crashed, was stopped, or cannot reach the coordinator."""
    return f"member {member_id} was silent for {session_timeout_ms} ms"


def joined_again(who: str, why: str, said: str | None = None) -> str:
    """`who`: "member x" or "leader x". `why`: as the coordinator found out, "" if it did not."""
    return _with(_with(f"{who} joined again", why), said)


def subscription_changed(member_id: str, before: Collection[str], after: Collection[str], said: str | None = None) -> str:
    added, dropped = _named(set(after) - set(before)), _named(set(before) - set(after))
    changes = [f"{verb} {names}" for verb, names in (("added", added), ("dropped", dropped)) if names]
    return _with(f"member {member_id} changed its subscription: {' and '.join(changes)}", said)


def partitions_gained(topic: str, before: int, now: int) -> str:
    return f"topic {topic} gained partitions: {before}, now {now}"


def topic_appeared(topic: str) -> str:
    return f"topic {topic} is there"


def topic_vanished(topic: str) -> str:
    return f"topic {topic} is gone"


def _named(names: Collection[str]) -> str:
    return listed([quoted(name) for name in sorted(names)])


def _with(words: str, said: str | None) -> str:
    return f"{words}: {said}" if said else words
