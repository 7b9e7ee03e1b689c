"""The assignor `uniform`: members get equally many partitions, and as few partitions move as that allows.

If all members subscribe to the same topics, loads differ by one at most, and no fewer partitions could move. Otherwise no single
move makes loads more even. Balance comes first, then what members have, then racks. Of the moving partitions, as many as possible
go to members in a rack with a replica. An overloaded member first gives up partitions without a replica in its rack.
"""

from itertools import chain

from services.group_coordinator.core.consumer.assignors.heterogeneous import HeterogeneousAssignment
from services.group_coordinator.core.consumer.assignors.kinds import kinds_of
from services.group_coordinator.core.consumer.assignors.order import members_in_order
from services.group_coordinator.core.consumer.assignors.racks import Partition, place, replica_racks
from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec


def assign_uniform(spec: GroupSpec) -> Assignment:
    members = members_in_order(spec)
    kept = _kept(spec, members)
    kinds = kinds_of(spec, members)
    owned = (
        HeterogeneousAssignment(spec, kinds, kept).balanced()
        if len(kinds) > 1
        else _homogeneous(spec, sorted(chain.from_iterable(kinds)), kept)
    )
    assignment: dict[str, dict[bytes, list[int]]] = {}
    for member_id in members:
        topics = assignment[member_id] = {}
        for topic_id, partition in sorted(owned[member_id]):
            topics.setdefault(topic_id, []).append(partition)
    return assignment


def _kept(spec: GroupSpec, members: list[str]) -> dict[str, list[Partition]]:
    """The partitions that members keep. If two members have the same one, the first keeps it."""
    taken: set[Partition] = set()
    kept: dict[str, list[Partition]] = {}
    for member_id in members:
        member = spec.members[member_id]
        mine = kept[member_id] = []
        for topic_id in sorted(member.assigned.keys() & member.subscribed & spec.topics.keys()):
            count = spec.topics[topic_id].partitions
            for partition in sorted(set(member.assigned[topic_id])):
                if 0 <= partition < count and (topic_id, partition) not in taken:
                    mine.append((topic_id, partition))
        taken.update(mine)
    return kept


def _homogeneous(spec: GroupSpec, topics: list[bytes], owned: dict[str, list[Partition]]) -> dict[str, list[Partition]]:
    """The assignment where all members subscribe to the same topics."""
    if not owned:
        return owned
    quota, remainder = divmod(sum(spec.topics[topic_id].partitions for topic_id in topics), len(owned))
    quotas: dict[str, int] = {}
    for member_id, mine in owned.items():  # first members that already have one more
        more = len(mine) > quota and remainder > 0
        remainder -= more
        quotas[member_id] = quota + more
    for member_id in owned:
        more = remainder > 0 and quotas[member_id] == quota
        remainder -= more
        quotas[member_id] += more
    racks_of = replica_racks(spec)
    for member_id, mine in owned.items():
        rack = spec.members[member_id].rack_id
        if len(mine) > quotas[member_id]:
            mine.sort(key=lambda partition: (rack not in racks_of(partition), partition))
            del mine[quotas[member_id] :]
    had = {partition for mine in owned.values() for partition in mine}
    left = [(topic_id, at) for topic_id in topics for at in range(spec.topics[topic_id].partitions) if (topic_id, at) not in had]
    slots = {member_id: quotas[member_id] - len(mine) for member_id, mine in owned.items()}
    for member_id, partition in place(spec, left, slots):
        owned[member_id].append(partition)
    return owned
