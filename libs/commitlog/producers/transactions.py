"""Which transactions keep readers of committed records from going on (kafka-facts, section 6).

A transaction is ongoing from its first batch to its marker, and then unreplicated until the high watermark passes the marker:
until then another leader might not know how it ended. Both are found by offset alone; who they belong to, the producers know.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    last_stable_offset: int
    """At the moment of the marker: where the earliest other transaction began that was ongoing, or the end of the marker."""
    aborted: bool


class UnstableTransactions:
    """Of one partition. `ongoing`: (first offset, producer id) of each."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self, ongoing: Iterable[tuple[int, int]] = ()) -> None:
        self._ongoing = sorted(ongoing)
        # (first offset, marker's offset), both ascending: one that began later and ended earlier is covered by the next.
        self._unreplicated: list[tuple[int, int]] = []

    @property
    def ongoing(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._ongoing)

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

    def never_began(self, producer_id: int, first_offset: int) -> None:
        """Its first batch could not be written."""
        self._drop(producer_id, first_offset)

    def never_ended(self, producer_id: int, first_offset: int) -> None:
        """Its marker could not be written. Those that it covered began later, so it covers them again as an ongoing one."""
        if self._unreplicated and self._unreplicated[-1][0] == first_offset:
            self._unreplicated.pop()
        self.begin(producer_id, first_offset)

    def first_unstable(self, high_watermark: int) -> int | None:
        """Where the earliest one begins of which readers must not see the end. The high watermark only rises."""
        unreplicated = self._unreplicated
        if unreplicated and unreplicated[0][1] < high_watermark:
            del unreplicated[: bisect_left(unreplicated, high_watermark, key=lambda entry: entry[1])]
        first = self._ongoing[0][0] if self._ongoing else None
        if unreplicated and (first is None or unreplicated[0][0] < first):
            return unreplicated[0][0]
        return first

    def inherit(self, older: "UnstableTransactions", end_offset: int) -> None:
        """The log was cut at `end_offset`: what ended before it is as unreplicated as it was."""
        self._unreplicated = [entry for entry in older._unreplicated if entry[1] < end_offset]

    def _drop(self, producer_id: int, first_offset: int) -> None:
        slot = bisect_left(self._ongoing, (first_offset, producer_id))
        assert self._ongoing[slot] == (first_offset, producer_id)
        del self._ongoing[slot]
