"""Leader epochs of a partition: at which offset each began. Kafka's `leader-epoch-checkpoint`.

An epoch is recorded at election, even if nothing is ever written in it (KAFKA-7415). The file is written by the next sync
round; what a crash takes of it is found again in the batches, or began at the log's end and is recorded again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from libs.commitlog.durable_files import format_checkpoint, parse_checkpoint
from libs.commitlog.errors import DirectoryDamaged

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class LeaderEpochs:
    """Ascending in both epoch and start offset."""

    def __init__(self, entries: Sequence[tuple[int, int]] = ()) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version = 0
        """Rises with every change, so that a sync round can tell whether what it wrote is still all."""

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
        """Of a log with the same end: its epochs in which nothing was written too."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._changed()

    @property
    def latest_start(self) -> int:
        """Where the latest epoch began; 0 if there is none."""
        return self._starts[-1] if self._starts else 0

    def assign(self, epoch: int, start_offset: int) -> None:
        """A new epoch begins. Entries that contradict it (a later epoch, or a later start) were a fork and go."""
        if epoch == self.latest:
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._starts[keep - 1] >= start_offset):
            keep -= 1
        self._epochs[keep:] = [epoch]
        self._starts[keep:] = [start_offset]
        self._changed()

    def truncate_end(self, end_offset: int) -> None:
        """The log ends at `end_offset` now. Epochs that began there or later go, empty ones too (KAFKA-10706)."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the epoch that holds it starts there."""
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
        """Where `epoch` ended, as OffsetForLeaderEpoch answers: (largest known epoch at most it, end); (-1, -1) if unknown."""
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
