"""The committed part of one partition, as a fetch reads it, wherever its numbers come from.

Today they come from the leader's own memory (`Partition`). A gateway on the same host can later serve the same view from the
watermark page and the mapped indexes. So nothing here may need more than that page and the files.
"""

from typing import NamedTuple, Protocol

from libs.commitlog.segments.reading import Slice
from libs.commitlog.segments.segment import SegmentFile
from services.storage.partition.failed_reads import FailedReads
from services.storage.partition.topic_traffic import TopicTraffic


class AbortedInRead(NamedTuple):
    """Aborted transactions that may have batches in a read, and in what follows it in its file."""

    here: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset)"""
    ahead: tuple[tuple[int, int, int], ...] = ()
    """(producer id, first offset, marker's offset): those of the read, and of all before `readable_to`."""
    readable_to: int = -1
    """The position up to which `ahead` is complete. -1: nobody reads on."""


class PartitionView(Protocol):
    @property
    def failed_reads(self) -> FailedReads: ...

    @property
    def traffic(self) -> TopicTraffic: ...

    @property
    def leading(self) -> bool:
        """Whether this node leads it. Else its ends rise when its leader reports them."""
        ...

    @property
    def node_id(self) -> int:
        """The leader, for a client with an old epoch."""
        ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def is_behind(self) -> bool:
        """Whether records of earlier leader epochs are not committed yet. Then the high watermark will rise by itself."""
        ...

    @property
    def active_file(self) -> SegmentFile:
        """The file where the log grows. A read that ended in another file would bring no more by waiting."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        """Batches from the one that holds `offset`, none at or past `end_offset`. None: nothing to read.

        Raises OffsetOutOfRange, LogDamaged, OSError.
        """
        ...

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int, count_max: int) -> AbortedInRead | None:
        """What a reader of committed records leaves out of `piece`, which was just read with these bounds. None: more than
        `count_max` transactions. Raises LogDamaged, OSError."""
        ...

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(largest known epoch ≤ `leader_epoch`, where it ends here); (-1, -1) when it is unknown."""
        ...
