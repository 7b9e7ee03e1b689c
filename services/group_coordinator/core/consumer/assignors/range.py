"""The assignor `range`: each topic's partitions in contiguous blocks, one for each subscriber, in the order of members.

Topics that have as many partitions and the same subscribers are co-partitioned: a member has the same numbers of each. As Kafka
4.2's, partition for partition: it keeps nothing of what was assigned before, and knows no racks. What moves is bounded by the
order alone.
"""

from collections.abc import Mapping
from itertools import chain

from services.group_coordinator.core.consumer.assignors.kinds import kinds_of
from services.group_coordinator.core.consumer.assignors.order import members_in_order
from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec


def assign_range(spec: GroupSpec) -> Assignment:
    members = members_in_order(spec)
    places = {member_id: place for place, member_id in enumerate(members)}
    subscribers: dict[bytes, list[list[str]]] = {}
    for topics, those in kinds_of(spec, members).items():
        for topic_id in topics:
            subscribers.setdefault(topic_id, []).append(those)
    assignment: dict[str, dict[bytes, range]] = {member_id: {} for member_id in members}
    for topic_id in sorted(subscribers):
        in_order = _merged(subscribers[topic_id], places)
        partitions = spec.topics[topic_id].partitions
        quota, one_more = divmod(partitions, len(in_order))
        start = 0
        for place, member_id in enumerate(in_order[:partitions]):
            end = start + quota + (place < one_more)
            assignment[member_id][topic_id] = range(start, end)
            start = end
    return assignment


def _merged(parts: list[list[str]], places: Mapping[str, int]) -> list[str]:
    """Each has its order already."""
    return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=places.__getitem__)
