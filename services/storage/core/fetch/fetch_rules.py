"""The rules of a fetch of one partition: what it may read, and its share of the request's budget."""

from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode


class FetchBudget:
    """The bytes that one Fetch may still return. The first non-empty partition gets at least one whole batch, over any limit."""

    __slots__ = ("_remaining", "min_bytes", "taken")

    def __init__(self, *, min_bytes: int, max_bytes: int) -> None:
        # A minimum above the maximum could never be met: the client would always wait for its max_wait.
        self.min_bytes = max(0, min(min_bytes, max_bytes))
        self._remaining = max(0, max_bytes)
        self.taken = 0

    def limit(self, partition_max_bytes: int) -> int:
        return max(0, min(partition_max_bytes, self._remaining))

    @property
    def owes_a_batch(self) -> bool:
        return self.taken == 0

    def take(self, length: int) -> None:
        self.taken += length
        self._remaining = max(0, self._remaining - length)

    @property
    def enough(self) -> bool:
        return self.taken >= self.min_bytes


@dataclass(frozen=True, slots=True)
class Divergence:
    """The point where the fetcher's log leaves the leader's. `end_offset` is where `epoch` ends here (KIP-595)."""

    epoch: int
    end_offset: int


def refuse_offset(fetch_offset: int, log_start: int, log_end: int) -> int:
    """OFFSET_OUT_OF_RANGE, or 0. Between the high watermark and the log end there is nothing to read yet, and no error."""
    return 0 if log_start <= fetch_offset <= log_end else int(ErrorCode.OFFSET_OUT_OF_RANGE)


def diverges(fetched_epoch: int, fetch_offset: int, epoch: int, end_offset: int) -> Divergence | int | None:
    """The comparison of the fetcher's last epoch with (`epoch`, `end_offset`), where that epoch ends in this log.

    None: the logs agree so far. A Divergence: the fetcher truncates to it. OFFSET_OUT_OF_RANGE: this log does not know the epoch.
    """
    if epoch < 0 or end_offset < 0:
        return int(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < fetched_epoch or end_offset < fetch_offset:
        return Divergence(epoch, end_offset)
    return None
