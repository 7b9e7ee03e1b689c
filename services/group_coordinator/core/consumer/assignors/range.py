"""The assignor `range`: each topic's partitions in contiguous blocks, one for each subscriber, in the order of members.

Topics with equally many partitions and the same subscribers are co-partitioned: a member gets the same numbers of each. The
result equals Kafka 4.2's, partition for partition. Earlier assignments and racks do not count, so only the order of members
limits what moves.
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
        quota, remainder = divmod(partitions, len(in_order))
        start = 0
        for place, member_id in enumerate(in_order[:partitions]):
            end = start + quota + (place < remainder)
            assignment[member_id][topic_id] = range(start, end)
            start = end
    return assignment


def _merged(parts: list[list[str]], places: Mapping[str, int]) -> list[str]:
    """The merged lists, each of which is in order."""
    return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=places.__getitem__)
