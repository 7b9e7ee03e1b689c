"""What a fetch reads through: the committed part of one partition, wherever its numbers come from.

Today they come from the leader's own memory (`Hosted`). A gateway on the same host can later serve the same view from the
watermark page and the mapped indexes (DESIGN section 7), so nothing here may need more than that page and the files.
"""

from typing import Protocol

from libs.commitlog.reading import Slice
from libs.commitlog.segment import SegmentFile
from services.storage.failed_reads import FailedReads


class PartitionView(Protocol):
    @property
    def failed_reads(self) -> FailedReads: ...

    @property
    def leading(self) -> bool:
        """False: it is followed here, and its ends rise when the leader tells."""
        ...

    @property
    def node_id(self) -> int:
        """Whose partition it is: the leader that a client with an old epoch is told of."""
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
        """Whether it has not committed yet what was in the log when it began to lead: its ends will rise by themselves."""
        ...

    @property
    def active_file(self) -> SegmentFile:
        """Where the log grows. A read that ended in another file would bring no more by waiting."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        """Batches from the one that holds `offset`, none at or past `end_offset`. None: nothing to read.

        Raises OffsetOutOfRange, LogDamaged, OSError.
        """
        ...

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of those that may have batches in `piece`, which was read just now with these bounds.

        Raises LogDamaged, OSError.
        """
        ...

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(largest known epoch ≤ `leader_epoch`, where it ends here); (-1, -1) when it is unknown."""
        ...
