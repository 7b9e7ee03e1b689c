"""Uniform assignment where members subscribe to different topics.

Members with the same subscription are alike but for their loads: a *kind*. Each has a heap of its members by load, and each topic
looks at the first of its kinds only. Heaps are lazy: what stands in them with a load that is not the member's any more is
passed over.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from services.group_coordinator.core.consumer.assignors.racks import Partition, knows_racks, place
from services.group_coordinator.core.consumer.assignors.spec import GroupSpec

Entry: TypeAlias = tuple[int, int]
"""A load, and whose: a member by its place in order."""
Owned: TypeAlias = dict[int, list[Partition]]
"""What a member has of a topic, by whose it was before; nothing empty."""
_NOBODY: Final = -1


class Uneven:
    """`kept`: what members have so far, in order. It is not changed."""

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
        # First those of which each subscriber must have most: whoever has them is not asked for more of the others.
        self.topics = sorted(self.kinds, key=lambda topic_id: (-share[topic_id], topic_id))

    def balanced(self) -> dict[str, list[Partition]]:
        """By member id."""
        for topic_id in self.topics:
            self._hand_out(topic_id)
        ahead = set(self.topics)
        while ahead:
            changed: set[int] = set()
            for topic_id in self.topics:
                if topic_id in ahead:
                    changed |= self._even_out(topic_id)
            ahead = {topic_id for kind in changed for topic_id in self.topics_of[kind]}
        if knows_racks(self.spec):
            for topic_id in self.topics:
                self._bring_near(topic_id)
        owned: dict[str, list[Partition]] = {member_id: [] for member_id in self.members}
        for partition, at in self.owner.items():
            owned[self.members[at]].append(partition)
        return owned

    def _first(self, kind: int) -> Entry:
        """Of that kind, who has least."""
        heap = self.heaps[kind]
        while self.load[heap[0][1]] != heap[0][0]:
            heappop(heap)
        return heap[0]

    def _least(self, kinds: list[tuple[Entry, int]]) -> int:
        """Who has least of all in `kinds`, a heap of what `_first` returned, brought up to date."""
        while True:
            entry, kind = kinds[0]
            first = self._first(kind)
            if first == entry:
                return entry[1]
            heappop(kinds)
            heappush(kinds, (first, kind))

    def _change(self, at: int, by: int) -> Entry:
        self.load[at] += by
        entry = self.load[at], at
        heappush(self.heaps[self.kind_of[at]], entry)
        return entry

    def _hand_out(self, topic_id: bytes) -> None:
        kinds = [(self._first(kind), kind) for kind in self.kinds[topic_id]]
        heapify(kinds)
        for number in range(self.spec.topics[topic_id].partitions):
            partition = topic_id, number
            if partition not in self.owner:
                at = self._least(kinds)
                self.owner[partition] = at
                self._change(at, 1)

    def _even_out(self, topic_id: bytes) -> set[int]:
        """Moves this topic's partitions while one move makes loads more even. Returns of which kinds loads changed."""
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
            partition = _given(owned[giver], giver, taker)
            self.owner[partition] = taker
            self._take(owned, partition)
            for at, by in ((giver, -1), (taker, 1)):
                entry = self._change(at, by)
                heappush(kinds, (entry, self.kind_of[at]))
                heappush(most, (-entry[0], at))
                changed.add(self.kind_of[at])
        return changed

    def _take(self, owned: dict[int, Owned], partition: Partition) -> None:
        at = self.owner[partition]
        owned.setdefault(at, {}).setdefault(self.former.get(partition, _NOBODY), []).append(partition)

    def _bring_near(self, topic_id: bytes) -> None:
        """Which of the partitions that move goes to whom is free, within a topic: loads stay as they are."""
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


def _given(mine: Owned, giver: int, taker: int) -> Partition:
    """Best what the taker had before, then what is new to the giver."""
    former = taker if taker in mine else next((before for before in mine if before != giver), giver)
    partition = mine[former].pop()
    if not mine[former]:
        del mine[former]
    return partition
