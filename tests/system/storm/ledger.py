"""The partitions that one group's members own, read and committed, as they see it, in one process and in one order.

A member owns a partition from the moment at which it was told so until it has let go of it, and says that before it tells the
coordinator. A member that was declared dead learns it late: what it still believes to own is held against it only if the
coordinator goes on speaking to it as to a member.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Owned:
    member: str
    epoch: int
    position: int | None = None
    """Of the next record that it reads. None: it does not know yet where to begin."""


@dataclass
class Overlap:
    """`loser` has not let go of what another one owns since `at_s`."""

    loser: str
    partition: int
    at_s: float
    words: str


@dataclass
class Ledger:
    """Times are seconds of a monotonic clock. Epochs are generations in the classic protocol."""

    partitions: int
    complaints: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    """How ownership ended, by partition: clean, crashed, fenced."""
    taken: int = 0
    redelivered: int = 0
    epochs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.read = [0] * self.partitions
        """One more than the last offset that anybody read."""
        self.committed = [0] * self.partitions
        """What was acknowledged, or told to a later owner."""
        self.asked = [0] * self.partitions
        """The highest that anybody asked to commit."""
        self._owners: dict[int, Owned] = {}
        self._in_epoch: dict[tuple[int, int], str] = {}
        self._overlaps: list[Overlap] = []

    def owner(self, partition: int) -> str | None:
        owned = self._owners.get(partition)
        return owned.member if owned else None

    def owns(self, member: str, partition: int) -> bool:
        return self.owner(partition) == member

    @property
    def whole(self) -> bool:
        """Whether every partition is owned by a member that knows its position."""
        return len(self._owners) == self.partitions and all(owned.position is not None for owned in self._owners.values())

    def take(self, member: str, partition: int, epoch: int, now_s: float) -> None:
        before = self._owners.get(partition)
        if before is not None and before.member != member:
            words = f"{member} owns {partition} in epoch {epoch}, and {before.member} owns it since epoch {before.epoch}"
            self._overlaps.append(Overlap(before.member, partition, now_s, words))
        self._owners[partition] = Owned(member, epoch)
        self.taken += 1
        self._note(member, partition, epoch)

    def goes_on(self, member: str, owned: list[int], epoch: int) -> None:
        """Notes that a member keeps these partitions in a newer epoch."""
        for partition in owned:
            if self.owns(member, partition):
                self._note(member, partition, epoch)

    def _note(self, member: str, partition: int, epoch: int) -> None:
        self.epochs.add(epoch)
        other = self._in_epoch.setdefault((epoch, partition), member)
        if other != member:
            self.complaints.append(f"{partition} was owned by {other} and by {member} in epoch {epoch}")

    def begin(self, member: str, partition: int, position: int) -> None:
        """Notes that a member reads on from its committed offset, from 0 if there is none."""
        owned = self._owners.get(partition)
        if owned is None or owned.member != member:
            return
        if position < self.committed[partition]:
            self.complaints.append(f"{member} was told {position} of {partition}, and {self.committed[partition]} was committed")
        if position > self.asked[partition]:
            words = f"{member} was told {position} of {partition}, and nobody committed more than {self.asked[partition]}"
            self.complaints.append(words)
        self.redelivered += max(0, self.read[partition] - position)
        # Whose commit this was may have crashed before it heard the answer.
        self.committed[partition] = max(self.committed[partition], position)
        owned.position = position

    def deliver(self, member: str, partition: int, first: int, last: int) -> None:
        owned = self._owners.get(partition)
        if owned is None or owned.member != member:
            return  # a member that was declared dead, and does not know yet
        if first != owned.position:
            self.complaints.append(f"{member} read {first} of {partition}, and {owned.position} was next")
        owned.position = last + 1
        self.read[partition] = max(self.read[partition], last + 1)

    def commits(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            self.asked[partition] = max(self.asked[partition], offset)

    def acknowledged(self, member: str, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            if offset < self.committed[partition]:
                words = f"{member} was let commit {offset} of {partition}, and {self.committed[partition]} was committed"
                self.complaints.append(words)
            self.committed[partition] = max(self.committed[partition], offset)

    def alive(self, member: str, asked_at_s: float) -> None:
        """The coordinator answered a question of that time as one answers a member."""
        for overlap in [one for one in self._overlaps if one.loser == member and one.at_s < asked_at_s]:
            self._overlaps.remove(overlap)
            self.complaints.append(overlap.words)

    def release(self, member: str, partition: int) -> None:
        """Notes that a member gave up a partition and has committed what it read."""
        for overlap in [one for one in self._overlaps if one.loser == member and one.partition == partition]:
            self._overlaps.remove(overlap)
            self.complaints.append(overlap.words)
        owned = self._owners.get(partition)
        if owned is None or owned.member != member:
            return
        if owned.position is not None and self.committed[partition] < owned.position:
            words = f"{member} let go of {partition} at {owned.position}, with {self.committed[partition]} committed"
            self.complaints.append(words)
        self.ends["clean"] += 1
        del self._owners[partition]

    def lose(self, member: str, how: str) -> None:
        """All that it owned, with whatever it had not committed."""
        self._overlaps = [one for one in self._overlaps if one.loser != member]
        for partition in [index for index, owned in self._owners.items() if owned.member == member]:
            del self._owners[partition]
            self.ends[how] += 1
