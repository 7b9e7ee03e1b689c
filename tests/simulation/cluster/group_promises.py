"""The promises made to a group, and whether they are kept (7 and 8 of docs/simulation.md). Members report; no I/O.

Offsets of one partition are a register: a fetch may answer what some commit wrote that was not surely replaced before the fetch
began. Whoever does not know what became of a commit says nothing, and it may be there or not; once a fetch showed it, it is.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.simulation.cluster.kafka_client import Partition
from tests.simulation.cluster.world import World

NOTHING = -1
"""What a fetch answers where nothing was committed."""


@dataclass(slots=True, eq=False)
class Write:
    """A write of one partition's offset."""

    offset: int
    begun: int
    ended: int | None = None
    """When it was acknowledged, or first seen."""
    refused: bool = False


@dataclass(slots=True, eq=False)
class Commit:
    begun: int
    generation: int
    newest: int
    """The newest generation that anybody was told to be in when it began."""
    writes: dict[Partition, Write]


@dataclass(slots=True, eq=False)
class Holding:
    """The partitions that one life of a consumer-protocol member holds, until it reports that it gave them up."""

    who: str
    partitions: set[Partition] = field(default_factory=set)
    epoch: int = 0
    heard_s: float = -1e9
    """It was a member then for sure, in the eyes of the only owner of its shard."""


class Promises:
    """The promises made to one group."""

    def __init__(self, world: World, group: str, session_s: float, static: str, *, classic: bool) -> None:
        self._world, self.group, self._session_s, self._static, self._classic = world, group, session_s, static, classic
        self._turns = itertools.count(1)
        self._writes: dict[Partition, list[Write]] = {}
        self.newest = -1
        """Generation, or epoch, that any member was told to be in."""
        self._leaders: dict[int, str] = {}
        self._assigned: dict[int, dict[str, frozenset[Partition]]] = {}
        self.holdings: list[Holding] = []

    def turn(self) -> int:
        """A moment, in the order of moments."""
        return next(self._turns)

    # --- 8

    def commit_begins(self, generation: int, offsets: Mapping[Partition, int]) -> Commit:
        turn = self.turn()
        writes = {partition: Write(offset, turn) for partition, offset in offsets.items()}
        for partition, write in writes.items():
            self._writes.setdefault(partition, []).append(write)
        return Commit(turn, generation, self.newest, writes)

    def accepted(self, commit: Commit, partition: Partition, *, stale: bool = False) -> None:
        """`stale`: its generation is old for sure, whatever the others know."""
        write = commit.writes[partition]
        if write.ended is None:
            write.ended = self.turn()
        # In the consumer protocol each member has an epoch of its own, and takes its time to get to the group's.
        if stale or (self._classic and commit.generation < commit.newest):
            self._violation(f"7: a commit of {commit.writes[partition].offset} at {partition} in {commit.generation} is accepted")

    def refused(self, commit: Commit, partition: Partition) -> None:
        """A commit was refused for good: the answer says that it is not stored."""
        write = commit.writes[partition]
        write.refused = True
        if write.ended is not None:
            self._violation(f"8: a commit of {write.offset} at {partition} is refused, and was seen")

    def fetched(self, begun: int, offsets: Mapping[Partition, int]) -> None:
        """`begun`: its `turn`."""
        now = self.turn()
        for partition, offset in offsets.items():
            writes = self._writes.get(partition, [])
            replaced = max((one.begun for one in writes if one.ended is not None and one.ended < begun), default=0)
            possible = [one for one in writes if not one.refused and (one.ended is None or one.ended >= replaced)]
            if offset == NOTHING:
                if replaced:
                    self._violation(f"8: {partition}: nothing is committed any more")
                continue
            found = [one for one in possible if one.offset == offset]
            if not found:
                last = [(one.offset, one.begun, one.ended) for one in writes if not one.refused][-4:]
                self._violation(f"8: {partition}: {offset} is fetched (begun {begun}), committed were {last}")
            elif len(found) == 1 and found[0].ended is None:
                found[0].ended = now

    def in_doubt(self, partition: Partition, offset: int) -> bool:
        """Whether a commit of it may yet be stored, and nobody knows."""
        return any(one.offset == offset and one.ended is None and not one.refused for one in self._writes.get(partition, []))

    def last_acknowledged(self, partition: Partition) -> int:
        done = [one for one in self._writes.get(partition, []) if one.ended is not None]
        return done[-1].offset if done else NOTHING

    # --- 7: classic

    def synced(self, generation: int, who: str, leader: str, partitions: frozenset[Partition], *, newest: int | None) -> None:
        """`who`: its instance id, if it has one. `newest`: that of when the member began to join; None: not to be compared."""
        if newest is not None and generation < newest:
            self._violation(f"7: {who} is in generation {generation} after {newest}")
        if leader.startswith(f"{self._static}-"):
            leader = self._static  # one that comes back gets another member id in the same generation
        known = self._leaders.setdefault(generation, leader)
        if known != leader:
            self._violation(f"7: generation {generation} is led by {known} and {leader}")
        shares = self._assigned.setdefault(generation, {})
        for other, share in shares.items():
            if other != who and share & partitions:
                self._violation(f"7: {sorted(share & partitions)} are {other}'s and {who}'s in generation {generation}")
        if shares.setdefault(who, partitions) != partitions:
            self._violation(f"7: in generation {generation} {who} has {sorted(partitions)}, and had {sorted(shares[who])}")
        self.newest = max(self.newest, generation)

    # --- 7: consumer

    def epoch_received(self, holding: Holding, epoch: int, *, newest: int | None) -> None:
        """`newest`: that of when it asked to join; None: it had joined."""
        least = holding.epoch if newest is None else newest
        if epoch < least:
            self._violation(f"7: {holding.who} is in epoch {epoch} after {least}")
        holding.epoch = epoch
        self.newest = max(self.newest, epoch)

    def given(self, holding: Holding, partitions: Iterable[Partition]) -> None:
        """Partitions were assigned. A member of the last session timeout holds what it did not give up."""
        now = self._world.loop.time()
        wanted = set(partitions)
        for other in self.holdings:
            twice = other.partitions & wanted
            if other is not holding and twice and now < other.heard_s + self._session_s:
                self._violation(
                    f"7: {sorted(twice)} are {holding.who}'s in epoch {holding.epoch}, and {other.who}'s in {other.epoch}, "
                    f"who was a member {now - other.heard_s:.2f} s ago"
                )
        holding.partitions |= wanted

    def _violation(self, what: str) -> None:
        number, _, rest = what.partition(": ")
        self._world.violation(f"{number}: group {self.group}: {rest}")
