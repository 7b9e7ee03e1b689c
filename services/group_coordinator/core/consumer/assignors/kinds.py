"""Members that subscribe to the same topics, together: most groups have one such kind, and no work is done twice for it."""

from collections.abc import Iterable

from services.group_coordinator.core.consumer.assignors.spec import GroupSpec


def kinds_of(spec: GroupSpec, members: Iterable[str]) -> dict[frozenset[bytes], list[str]]:
    """By their topics, of those that there are. Members in the order in which they are given."""
    by_subscription: dict[frozenset[bytes], list[str]] = {}
    for member_id in members:
        by_subscription.setdefault(spec.members[member_id].subscribed, []).append(member_id)
    known = frozenset(spec.topics)
    kinds: dict[frozenset[bytes], list[str]] = {}
    for subscribed, those in by_subscription.items():
        kinds.setdefault(subscribed & known, []).extend(those)
    return kinds
