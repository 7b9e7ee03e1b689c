"""The matching of partitions to members by rack: as many as possible go to a member in a rack with a replica.

Fetches within a rack (KIP-392) cost no traffic between racks. Kafka 4.2's own server-side assignors ignore racks.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from services.group_coordinator.core.consumer.assignors.spec import GroupSpec

Partition: TypeAlias = tuple[bytes, int]
RackSet: TypeAlias = frozenset[str]
_NOWHERE: RackSet = frozenset()


def replica_racks(spec: GroupSpec) -> Callable[[Partition], RackSet]:
    def racks_of(partition: Partition) -> RackSet:
        racks = spec.topics[partition[0]].racks
        return racks[partition[1]] if partition[1] < len(racks) else _NOWHERE

    return racks_of


def knows_racks(spec: GroupSpec) -> bool:
    """Whether members and topics name racks at all."""
    return any(member.rack_id is not None for member in spec.members.values()) and any(
        topic.racks for topic in spec.topics.values()
    )


def place(spec: GroupSpec, partitions: Sequence[Partition], slots: Mapping[str, int]) -> list[tuple[str, Partition]]:
    """The partitions with the members that get them. `slots` says how many each member gets. Partitions are dealt in turn, so
    that a topic's partitions spread over members."""
    left = dict(slots)
    placed: list[tuple[str, Partition]] = []
    if knows_racks(spec):
        members: dict[str, list[str]] = {}
        for member_id, count in slots.items():
            rack = spec.members[member_id].rack_id
            if rack is not None and count > 0:
                members.setdefault(rack, []).append(member_id)
        room = {rack: sum(slots[member_id] for member_id in those) for rack, those in members.items()}
        chosen = _by_rack(partitions, replica_racks(spec), room)
        for rack, near in chosen.items():
            placed += _deal(near, {member_id: left[member_id] for member_id in members[rack]})
        for member_id, _ in placed:
            left[member_id] -= 1
        gone = {partition for _, partition in placed}
        partitions = [partition for partition in partitions if partition not in gone]
    return placed + _deal(partitions, left)


def _deal(partitions: Sequence[Partition], slots: Mapping[str, int]) -> list[tuple[str, Partition]]:
    turns = deque((member_id, count) for member_id, count in slots.items() if count > 0)
    dealt: list[tuple[str, Partition]] = []
    for partition in partitions:
        if not turns:
            break
        member_id, count = turns.popleft()
        dealt.append((member_id, partition))
        if count > 1:
            turns.append((member_id, count - 1))
    return dealt


def _by_rack(
    partitions: Sequence[Partition], racks_of: Callable[[Partition], RackSet], room: Mapping[str, int]
) -> dict[str, list[Partition]]:
    """A largest matching of partitions to racks. Partitions with the same racks are alike, so it matches kinds of partitions."""
    kinds: dict[RackSet, list[Partition]] = {}
    racks = frozenset(room)
    for partition in partitions:
        near = racks_of(partition) & racks
        if near:
            kinds.setdefault(near, []).append(partition)
    matching = Matching(room)
    for kind in sorted(kinds, key=lambda kind: (len(kind), sorted(kind))):
        matching.add(kind, len(kinds[kind]))
    return {
        rack: sorted(kinds[kind].pop() for kind in sorted(takers, key=sorted) for _ in range(takers[kind]))
        for rack, takers in matching.takers.items()
    }


class Matching:
    """A largest matching of kinds to racks: how many of each kind go to each rack, whatever the order in which they are added."""

    def __init__(self, room: Mapping[str, int]) -> None:
        self.takers: dict[str, dict[RackSet, int]] = {rack: {} for rack in sorted(room)}
        self._room = dict(room)
        self._closed: set[str] = set()
        """Racks that are full for good: nothing in them could go elsewhere."""

    def add(self, kind: RackSet, count: int) -> None:
        while count:
            path = self._path(kind)
            if path is None:
                return
            last_rack = path[-1][1]
            given_up = [(rack, loser) for (_, rack), (loser, _) in pairwise(path)]
            amount = min(count, self._room[last_rack], *(self.takers[rack][loser] for rack, loser in given_up))
            for rack, loser in given_up:
                self.takers[rack][loser] -= amount
                if not self.takers[rack][loser]:
                    del self.takers[rack][loser]
            for taker, rack in path:
                self.takers[rack][taker] = self.takers[rack].get(taker, 0) + amount
            self._room[last_rack] -= amount
            count -= amount

    def _path(self, start: RackSet) -> list[tuple[RackSet, str]] | None:
        """A path to a rack with room: each kind takes a rack, and a kind that is there moves to the next one."""
        reached_by: dict[str, tuple[RackSet, str | None]] = {}
        seen = {start}
        ahead: deque[tuple[RackSet, str | None]] = deque([(start, None)])
        while ahead:
            kind, before = ahead.popleft()
            for rack in sorted(kind - reached_by.keys() - self._closed):
                reached_by[rack] = kind, before
                if self._room[rack] > 0:
                    return _back(reached_by, rack)
                ahead += [(other, rack) for other in self.takers[rack] if other not in seen]
                seen.update(self.takers[rack])
        self._closed.update(reached_by)
        return None


def _back(reached_by: Mapping[str, tuple[RackSet, str | None]], rack: str | None) -> list[tuple[RackSet, str]]:
    path: list[tuple[RackSet, str]] = []
    while rack is not None:
        kind, before = reached_by[rack]
        path.append((kind, rack))
        rack = before
    return path[::-1]
