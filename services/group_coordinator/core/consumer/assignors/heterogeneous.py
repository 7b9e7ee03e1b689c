"""Uniform assignment where members subscribe to different topics.

Members with the same subscription differ only in their loads: they are a *kind*. Each kind has a heap of its members by load, and
each topic looks only at the first member of its kinds. Heaps are lazy: entries with an outdated load are skipped.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from services.group_coordinator.core.consumer.assignors.racks import Partition, knows_racks, place
from services.group_coordinator.core.consumer.assignors.spec import GroupSpec

Entry: TypeAlias = tuple[int, int]
"""A load and the member that has it, by position."""
Owned: TypeAlias = dict[int, list[Partition]]
"""A member's partitions of a topic, by their former owner. No list is empty."""
_NOBODY: Final = -1


class HeterogeneousAssignment:
    """The assignment in the making. `kept` is what members keep, in their order. It is not changed."""

    def __init__(self, spec: GroupSpec, kinds: Mapping[frozenset[bytes], list[str]], kept: Mapping[str, list[Partition]]) -> None:
        self.spec = spec
        self.members = list(kept)
        self.load = [len(mine) for mine in kept.values()]
        self.former = {partition: at for at, mine in enumerate(kept.values()) for partition in mine}
        self.owner = dict(self.former)
        places = {member_id: at for at, member_id in enumerate(self.members)}
        self.topics_of = list(kinds)
        self.kind_of = [0] * len(kept)
        self.heaps: list[list[Entry]] = []
        self.kinds: dict[bytes, list[int]] = {}
        for kind, (topics, those) in enumerate(kinds.items()):
            self.heaps.append([(self.load[places[member_id]], places[member_id]) for member_id in those])
            heapify(self.heaps[kind])
            for member_id in those:
                self.kind_of[places[member_id]] = kind
            for topic_id in topics:
                self.kinds.setdefault(topic_id, []).append(kind)
        sizes = [len(those) for those in kinds.values()]
        share = {
            topic_id: spec.topics[topic_id].partitions / sum(sizes[kind] for kind in subscribers)
            for topic_id, subscribers in self.kinds.items()
        }
        # Topics with the largest share per subscriber come first, so that their members get fewer of the others.
        self.topics = sorted(self.kinds, key=lambda topic_id: (-share[topic_id], topic_id))

    def balanced(self) -> dict[str, list[Partition]]:
        """The balanced assignment, by member id."""
        for topic_id in self.topics:
            self._assign_unassigned(topic_id)
        ahead = set(self.topics)
        while ahead:
            changed: set[int] = set()
            for topic_id in self.topics:
                if topic_id in ahead:
                    changed |= self._balance_topic(topic_id)
            ahead = {topic_id for kind in changed for topic_id in self.topics_of[kind]}
        if knows_racks(self.spec):
            for topic_id in self.topics:
                self._match_racks(topic_id)
        owned: dict[str, list[Partition]] = {member_id: [] for member_id in self.members}
        for partition, at in self.owner.items():
            owned[self.members[at]].append(partition)
        return owned

    def _first(self, kind: int) -> Entry:
        """The entry of the member with the lowest load of that kind."""
        heap = self.heaps[kind]
        while self.load[heap[0][1]] != heap[0][0]:
            heappop(heap)
        return heap[0]

    def _least(self, kinds: list[tuple[Entry, int]]) -> int:
        """The member with the lowest load of all `kinds`, a heap of entries that is brought up to date."""
        while True:
            entry, kind = kinds[0]
            first = self._first(kind)
            if first == entry:
                return entry[1]
            heappop(kinds)
            heappush(kinds, (first, kind))

    def _change_load(self, at: int, by: int) -> Entry:
        self.load[at] += by
        entry = self.load[at], at
        heappush(self.heaps[self.kind_of[at]], entry)
        return entry

    def _assign_unassigned(self, topic_id: bytes) -> None:
        kinds = [(self._first(kind), kind) for kind in self.kinds[topic_id]]
        heapify(kinds)
        for number in range(self.spec.topics[topic_id].partitions):
            partition = topic_id, number
            if partition not in self.owner:
                at = self._least(kinds)
                self.owner[partition] = at
                self._change_load(at, 1)

    def _balance_topic(self, topic_id: bytes) -> set[int]:
        """Moves partitions of this topic while one move makes loads more even. Returns the kinds whose loads changed."""
        owned: dict[int, Owned] = {}
        for number in range(self.spec.topics[topic_id].partitions):
            self._take(owned, (topic_id, number))
        most = [(-self.load[at], at) for at in owned]
        heapify(most)
        kinds = [(self._first(kind), kind) for kind in self.kinds[topic_id]]
        heapify(kinds)
        changed: set[int] = set()
        while most:
            giver = most[0][1]
            if -most[0][0] != self.load[giver] or not owned[giver]:
                heappop(most)
                continue
            taker = self._least(kinds)
            if self.load[giver] - self.load[taker] < 2:
                break
            partition = _partition_to_move(owned[giver], giver, taker)
            self.owner[partition] = taker
            self._take(owned, partition)
            for at, by in ((giver, -1), (taker, 1)):
                entry = self._change_load(at, by)
                heappush(kinds, (entry, self.kind_of[at]))
                heappush(most, (-entry[0], at))
                changed.add(self.kind_of[at])
        return changed

    def _take(self, owned: dict[int, Owned], partition: Partition) -> None:
        at = self.owner[partition]
        owned.setdefault(at, {}).setdefault(self.former.get(partition, _NOBODY), []).append(partition)

    def _match_racks(self, topic_id: bytes) -> None:
        """Exchanges moving partitions of a topic between members in order to match racks. Loads stay the same."""
        moving: list[Partition] = []
        slots: dict[str, int] = {}
        for number in range(self.spec.topics[topic_id].partitions):
            partition = topic_id, number
            at = self.owner[partition]
            if self.former.get(partition) != at:
                moving.append(partition)
                slots[self.members[at]] = slots.get(self.members[at], 0) + 1
        if len(slots) > 1:
            places = {self.members[at]: at for at in {self.owner[partition] for partition in moving}}
            for member_id, partition in place(self.spec, moving, slots):
                self.owner[partition] = places[member_id]


def _partition_to_move(mine: Owned, giver: int, taker: int) -> Partition:
    """The partition to move: best one that the taker had before, then one that is new to the giver."""
    former = taker if taker in mine else next((before for before in mine if before != giver), giver)
    partition = mine[former].pop()
    if not mine[former]:
        del mine[former]
    return partition
