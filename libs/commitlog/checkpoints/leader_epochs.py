"""The leader epochs of a partition, and the offset at which each began: Kafka's `leader-epoch-checkpoint`.

An epoch is recorded at election, even if no record is ever written in it (KAFKA-7415). The next sync round writes the file. If a
crash loses an entry, the batches have its epoch, or it began at the log's end and is recorded again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from libs.commitlog.files.durable_files import format_checkpoint, parse_checkpoint
from libs.commitlog.model.errors import DirectoryDamaged

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class LeaderEpochs:
    """The leader epochs of a log, each with its start offset. Both ascend."""

    def __init__(self, entries: Sequence[tuple[int, int]] = ()) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version = 0
        """A number that rises with every change. By it a sync round sees whether the epochs that it wrote are still all of
        them."""

    @classmethod
    def parse(cls, content: bytes, path: str) -> "LeaderEpochs":
        """Raises DirectoryDamaged."""
        try:
            entries = [(int(epoch), int(start)) for epoch, start in parse_checkpoint(content, path)]
        except ValueError as error:
            raise DirectoryDamaged(f"{path}: {error}") from error
        ascending = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
        if not ascending:
            raise DirectoryDamaged(f"{path}: epochs are not in order")
        return cls(entries)

    def format(self) -> bytes:
        return format_checkpoint([f"{epoch} {start}" for epoch, start in self.entries()])

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def take_over(self, entries: Sequence[tuple[int, int]]) -> None:
        """Takes over the epochs of a log with the same end, those without records too."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._changed()

    @property
    def latest_start(self) -> int:
        """The start of the latest epoch; 0 if there is none."""
        return self._starts[-1] if self._starts else 0

    def assign(self, epoch: int, start_offset: int) -> None:
        """Adds a new epoch. Entries that contradict it (a later epoch, or a later start) belonged to a fork, and are removed."""
        if epoch == self.latest:
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._starts[keep - 1] >= start_offset):
            keep -= 1
        self._epochs[keep:] = [epoch]
        self._starts[keep:] = [start_offset]
        self._changed()

    def truncate_end(self, end_offset: int) -> None:
        """Follows a truncation to `end_offset`. Epochs that began there or later are removed, empty ones too (KAFKA-10706)."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """Follows a new start of the log: the epoch that holds `start_offset` starts there."""
        first = bisect_right(self._starts, start_offset) - 1
        if first < 0 or (first == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:first], self._starts[:first]
        self._starts[0] = start_offset
        self._changed()

    def epoch_for(self, offset: int) -> int:
        """The epoch in which `offset` was or would be written; -1 if unknown."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The end of `epoch`, as OffsetForLeaderEpoch answers: (largest known epoch at most it, end); (-1, -1) if unknown."""
        if epoch == NO_EPOCH or not self._epochs or epoch > self.latest:
            return NO_EPOCH, -1
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == 0:
            return epoch, self._starts[0]
        return self._epochs[slot - 1], self._starts[slot]

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version += 1
