"""Open transactions, which hold back readers of committed records.

A transaction is ongoing from its first batch to its marker. Then it is unreplicated until the high watermark passes the marker:
another leader might not know yet how it ended. Both are found by offset alone; producers know their own.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The last stable offset at the time of the marker: the start of the earliest other ongoing transaction, or the end of the
    marker."""
    aborted: bool


class UnstableTransactions:
    """The transactions of one partition that are ongoing or unreplicated. `ongoing`: (first offset, producer id) of each."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self, ongoing: Iterable[tuple[int, int]] = ()) -> None:
        self._ongoing = sorted(ongoing)
        # (first offset, marker's offset), both ascending. A transaction that began later and ended earlier is covered by the next
        # one.
        self._unreplicated: list[tuple[int, int]] = []

    @property
    def ongoing(self) -> tuple[tuple[int, int], ...]:
        """All of them: a client may have opened very many."""
        return tuple(self._ongoing)

    def __len__(self) -> int:
        """The number of ongoing ones."""
        return len(self._ongoing)

    def oldest(self, count_max: int) -> list[tuple[int, int]]:
        """Those that began first, as in `ongoing`."""
        return self._ongoing[:count_max]

    def begin(self, producer_id: int, first_offset: int) -> None:
        insort(self._ongoing, (first_offset, producer_id))

    def end(self, producer_id: int, first_offset: int, marker_offset: int, *, aborted: bool) -> EndedTransaction:
        self._drop(producer_id, first_offset)
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1][0] >= first_offset:
            unreplicated.pop()
        unreplicated.append((first_offset, marker_offset))
        stable = self._ongoing[0][0] if self._ongoing else marker_offset + 1
        return EndedTransaction(producer_id, first_offset, marker_offset, stable, aborted)

    def revert_begin(self, producer_id: int, first_offset: int) -> None:
        """Takes back the begin of a transaction whose first batch could not be written."""
        self._drop(producer_id, first_offset)

    def revert_end(self, producer_id: int, first_offset: int) -> None:
        """Takes back the end of a transaction whose marker could not be written. Transactions that it covered began later, so it
        covers them again as an ongoing one."""
        if self._unreplicated and self._unreplicated[-1][0] == first_offset:
            self._unreplicated.pop()
        self.begin(producer_id, first_offset)

    def first_unstable(self, high_watermark: int) -> int | None:
        """The start of the earliest transaction whose end readers must not see yet. The high watermark only rises."""
        unreplicated = self._unreplicated
        if unreplicated and unreplicated[0][1] < high_watermark:
            del unreplicated[: bisect_left(unreplicated, high_watermark, key=lambda entry: entry[1])]
        first = self._ongoing[0][0] if self._ongoing else None
        if unreplicated and (first is None or unreplicated[0][0] < first):
            return unreplicated[0][0]
        return first

    def inherit(self, older: "UnstableTransactions", end_offset: int) -> None:
        """Follows a truncation to `end_offset`: transactions that ended before it are as unreplicated as they were."""
        self._unreplicated = [entry for entry in older._unreplicated if entry[1] < end_offset]

    def _drop(self, producer_id: int, first_offset: int) -> None:
        slot = bisect_left(self._ongoing, (first_offset, producer_id))
        assert self._ongoing[slot] == (first_offset, producer_id)
        del self._ongoing[slot]
