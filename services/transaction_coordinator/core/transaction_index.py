"""An index of a shard's transactions for operators: how many are in each state, and which are under way, the oldest first.

It changes with each transaction, in tables of the same journal. So no view, metric or look for late transactions walks over all
transactional ids, and a reverted decision reverts the index.
"""

from collections.abc import Iterator
from heapq import heapify, heappop
from typing import Final

from libs.coordinator.core.tables import Journal, Table, add_to_count
from services.transaction_coordinator.core.states import AT_REST
from services.transaction_coordinator.core.transaction import Transaction

SECOND_MS: Final = 1000


class TransactionIndex:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.states: Table[str, int] = Table(journal)
        """Kafka's name of a state → number of transactional ids. A number of zero has no entry."""
        self._seconds: Table[int, Table[str, bool]] = Table(journal)
        """The second in which transactions under way began → their transactional ids."""

    def change(self, before: Transaction | None, after: Transaction | None) -> None:
        """Notes that one transaction takes the other's place. None: there was none, or there is none any more."""
        was, now = _state(before), _state(after)
        if was != now:
            for state, by in ((was, -1), (now, 1)):
                if state is not None:
                    add_to_count(self.states, state, by)
        began, begins = _second(before), _second(after)
        if began == begins:
            return
        if before is not None and began is not None:
            ids = self._seconds[began]
            del ids[before.transactional_id]
            if not ids:
                del self._seconds[began]
        if after is not None and begins is not None:
            if begins not in self._seconds:
                self._seconds[begins] = Table(self._journal)
            self._seconds[begins][after.transactional_id] = True

    def under_way(self) -> Iterator[str]:
        """The transactional ids of transactions under way. One that began in an earlier second comes first."""
        seconds = list(self._seconds)
        heapify(seconds)
        while seconds:
            yield from self._seconds[heappop(seconds)]


def _state(transaction: Transaction | None) -> str | None:
    return transaction.state.value if transaction is not None else None


def _second(transaction: Transaction | None) -> int | None:
    """None: it is not under way."""
    if transaction is None or transaction.state in AT_REST:
        return None
    return transaction.started_ms // SECOND_MS
