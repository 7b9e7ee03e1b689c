"""What was decided about transactions, and what partitions show of it. Each must agree with the other (10).

A transaction has one outcome. Each of its partitions gets that marker before it is complete, and none stays open. No I/O.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.transaction_coordinator.core.states import PREPARED, TRANSITIONS, State
from services.transaction_coordinator.core.transaction import Transaction

OPEN_S_MAX = 60.0
"""Longest time that a transaction may stay open beyond its timeout: coordinators and leaders may be away for so long."""
MISSING_S_MAX = 30.0
"""Longest time for which a decision may be missing that its marker shows: the replicas that have it may be away."""
_STEPS = {(before, after) for (before, _), after in TRANSITIONS.items()}


class Ended(NamedTuple):
    """The end of a producer's transaction, as a decision or a marker says it."""

    producer_id: int
    epoch: int
    aborts: bool

    @classmethod
    def by(cls, prepared: Transaction) -> "Ended":
        return cls(prepared.producer.producer_id, prepared.producer.epoch, prepared.state is State.PREPARE_ABORT)


class _Seen(NamedTuple):
    """A marker in a partition, and when it was seen. `ended_one`: batches of a transaction were before it."""

    at: float
    end: Ended
    ended_one: bool


@dataclass(slots=True)
class _Ends:
    """The ends of one producer's transactions in one partition."""

    decided: list[Ended] = field(default_factory=list)
    done: int = 0
    """So many of the decided ones have their marker."""
    markers: list[_Seen] = field(default_factory=list)
    """Those that no known decision explains."""

    bare: int = 0
    """So many of the last done decisions, which are all equal, are explained by a marker that ended no transaction. It may have
    been a former one, written twice."""

    def explain(self) -> None:
        while self.markers and self._takes(self.markers[0]):
            del self.markers[0]

    def _takes(self, marker: _Seen) -> bool:
        """Whether decisions explain the marker. One that ended no transaction may be written twice."""
        repeats = bool(self.done) and self.decided[self.done - 1] == marker.end
        if self.done < len(self.decided) and self.decided[self.done] == marker.end:
            self.done += 1
            self.bare = self.bare + (not marker.ended_one) if repeats else 0
            return True
        if repeats and marker.ended_one and self.bare:
            self.bare -= 1
            return True
        return repeats and not marker.ended_one

    def done_with(self, markers: Sequence[Ended]) -> int:
        """The number of decisions that are done once these markers count, too."""
        ahead = _Ends(
            self.decided, self.done, [*self.markers, *(_Seen(0.0, marker, ended_one=False) for marker in markers)], self.bare
        )
        ahead.explain()
        return ahead.done


class _Completed(NamedTuple):
    """A transaction that is complete, by its partitions and the number of decisions that must be done there."""

    transactional_id: str
    producer_id: int
    places: tuple[tuple[str, int], ...]


MarkersAt = Callable[[str, int], Sequence[Ended] | None]
"""Further markers of a producer in the log of a partition's leader. None: nobody leads it."""


class Ledger:
    """`violation` is told of each promise that is broken. Partitions are names, times are seconds."""

    def __init__(self, violation: Callable[[str], None]) -> None:
        self._violation = violation
        self.transactions: dict[str, Transaction] = {}
        """By transactional id, as the coordinators' log has them."""
        self._since: dict[str, float] = {}
        """When each transaction under way was first seen."""
        self._open: dict[tuple[str, int], float] = {}
        """When the first batch of each open transaction was first seen, by partition and producer id."""
        self._ends: dict[tuple[str, int], _Ends] = {}
        self._completed: list[_Completed] = []

    def changed(self, after: Transaction, now: float) -> None:
        """The next record of a transactional id."""
        name = after.transactional_id
        before = self.transactions.get(name)
        self.transactions[name] = after
        if before is not None and (before.state, after.state) not in _STEPS:
            self._violation(f"{name} is {before.state.value}, then {after.state.value}")
        if after.state is State.ONGOING or after.state in PREPARED:
            self._since.setdefault(name, now)
        else:
            self._since.pop(name, None)
        if after.state in PREPARED:
            for place in _places(after):
                self._ends.setdefault((place, after.producer.producer_id), _Ends()).decided.append(Ended.by(after))
        elif before is not None and before.state in PREPARED:
            producer_id = before.producer.producer_id
            places = tuple((place, len(self._ends[place, producer_id].decided)) for place in _places(before))
            self._completed.append(_Completed(name, producer_id, places))

    def written(self, place: str, producer_id: int, now: float) -> None:
        """A batch of a transaction is in a partition."""
        self._open.setdefault((place, producer_id), now)

    def marked(self, place: str, marker: Ended, now: float) -> None:
        ended_one = self._open.pop((place, marker.producer_id), None) is not None
        ends = self._ends.setdefault((place, marker.producer_id), _Ends())
        ends.markers.append(_Seen(now, marker, ended_one))
        ends.explain()

    def check(self, now: float, markers_at: MarkersAt) -> None:
        """Judges what is known by now."""
        for (place, _), ends in self._ends.items():
            ends.explain()
            if ends.markers and now - ends.markers[0].at > MISSING_S_MAX:
                self._violation(f"{place} has {ends.markers.pop(0).end}, and nobody has decided that")
        self._completed = [one for one in self._completed if not self._is_proven(one, markers_at)]
        for name, since in list(self._since.items()):
            transaction = self.transactions[name]
            if now - since > transaction.timeout_ms / 1000 + OPEN_S_MAX:
                del self._since[name]
                self._violation(f"{name} is {transaction.state.value} since {now - since:.0f} s")
        timeout_s = max((one.timeout_ms for one in self.transactions.values()), default=0) / 1000
        for (place, producer_id), since in list(self._open.items()):
            if now - since > timeout_s + OPEN_S_MAX:
                del self._open[place, producer_id]
                self._violation(f"{place} has a transaction of producer {producer_id} that is open since {now - since:.0f} s")

    def unfinished(self) -> Iterator[str]:
        """What is not at rest yet."""
        yield from (f"{name} is {self.transactions[name].state.value}" for name in self._since)
        yield from (f"{place} has an open transaction of producer {producer_id}" for place, producer_id in self._open)
        yield from (f"{one.transactional_id} is complete, and may lack markers" for one in self._completed)
        for (place, _), ends in self._ends.items():
            if ends.markers or ends.done < len(ends.decided):
                yield f"{place} lacks markers for {ends.decided[ends.done :]}, and has {[seen.end for seen in ends.markers]}"

    def _is_proven(self, completed: _Completed, markers_at: MarkersAt) -> bool:
        """Whether a complete transaction is known to have all its markers, or to lack one."""
        for place, count in completed.places:
            ends = self._ends[place, completed.producer_id]
            if ends.done >= count:
                continue
            markers = markers_at(place, completed.producer_id)
            if markers is None:
                return False
            if ends.done_with(markers) < count:
                self._violation(f"{completed.transactional_id} is complete, and {place} has no marker of it")
                return True
        return True


def _places(transaction: Transaction) -> list[str]:
    return [f"{topic}-{index}" for topic, index in sorted(transaction.partitions)]
