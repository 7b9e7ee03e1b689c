"""Members by subscription. Most groups have one subscription, and work is done once for each."""

from collections.abc import Iterable

from services.group_coordinator.core.consumer.assignors.spec import GroupSpec


def kinds_of(spec: GroupSpec, members: Iterable[str]) -> dict[frozenset[bytes], list[str]]:
    """Members by their subscribed topics that exist. Members keep the given order."""
    by_subscription: dict[frozenset[bytes], list[str]] = {}
    for member_id in members:
        by_subscription.setdefault(spec.members[member_id].subscribed, []).append(member_id)
    known = frozenset(spec.topics)
    kinds: dict[frozenset[bytes], list[str]] = {}
    for subscribed, those in by_subscription.items():
        kinds.setdefault(subscribed & known, []).extend(those)
    return kinds
