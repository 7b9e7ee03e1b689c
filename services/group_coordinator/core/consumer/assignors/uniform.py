"""The assignor `uniform`: as many partitions for each member as for any other, and as few that move as that allows.

Where all subscribe to the same topics, loads differ by at most one, and no fewer partitions could move. Else no single move makes
loads more even. Balance goes first, then what members have, then racks: of partitions that move, as many as can go to members in
a rack of one of their replicas, and a member that has too much gives up first what is far from it.
"""

from itertools import chain

from services.group_coordinator.core.consumer.assignors.kinds import kinds_of
from services.group_coordinator.core.consumer.assignors.order import members_in_order
from services.group_coordinator.core.consumer.assignors.racks import Partition, place, replica_racks
from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec
from services.group_coordinator.core.consumer.assignors.uneven import Uneven


def assign_uniform(spec: GroupSpec) -> Assignment:
    members = members_in_order(spec)
    kept = _kept(spec, members)
    kinds = kinds_of(spec, members)
    owned = Uneven(spec, kinds, kept).balanced() if len(kinds) > 1 else _even(spec, sorted(chain.from_iterable(kinds)), kept)
    assignment: dict[str, dict[bytes, list[int]]] = {}
    for member_id in members:
        topics = assignment[member_id] = {}
        for topic_id, partition in sorted(owned[member_id]):
            topics.setdefault(topic_id, []).append(partition)
    return assignment


def _kept(spec: GroupSpec, members: list[str]) -> dict[str, list[Partition]]:
    """What members have and may have. If two have the same, the first keeps it."""
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


def _even(spec: GroupSpec, topics: list[bytes], owned: dict[str, list[Partition]]) -> dict[str, list[Partition]]:
    """All subscribe to these topics."""
    if not owned:
        return owned
    quota, one_more = divmod(sum(spec.topics[topic_id].partitions for topic_id in topics), len(owned))
    quotas: dict[str, int] = {}
    for member_id, mine in owned.items():  # first those who have one more already
        more = len(mine) > quota and one_more > 0
        one_more -= more
        quotas[member_id] = quota + more
    for member_id in owned:
        more = one_more > 0 and quotas[member_id] == quota
        one_more -= more
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
