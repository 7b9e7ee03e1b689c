"""The times since when nodes are away or present, as one controller has seen them in its term."""

from collections.abc import Iterable, Set

STEADY_S = 60.0
"""A node that came back counts as steady after so long, or after `self.balancing.away.ms` if that is shorter."""


class Absences:
    """The absences of nodes. A node that is away at the first check counts as away from then on; a present node counts as always
    present."""

    __slots__ = ("_away_since", "_began", "_present_since")

    def __init__(self) -> None:
        self._away_since: dict[int, float] = {}
        self._present_since: dict[int, float] = {}
        self._began = False

    def observe(self, known: Iterable[int], here: Set[int], now: float) -> None:
        """Notes which of the `known` nodes are away."""
        missed = sorted(node_id for node_id in known if node_id not in here)
        if self._began:
            returned = (node_id for node_id in here if node_id not in self._present_since)
            self._present_since.update(dict.fromkeys(sorted(returned), now))
        else:
            self._began = True
            self._present_since = dict.fromkeys(sorted(here), now - STEADY_S)
        self._present_since = {node_id: since for node_id, since in self._present_since.items() if node_id in here}
        self._away_since = {node_id: self._away_since.get(node_id, now) for node_id in missed}

    def away_s(self, now: float) -> dict[int, float]:
        return {node_id: now - since for node_id, since in self._away_since.items()}

    def gone(self, now: float, timeout_s: float) -> frozenset[int]:
        return frozenset(node_id for node_id, since in self._away_since.items() if now - since >= timeout_s)

    def calm(self, now: float, timeout_s: float, holders: Set[int]) -> bool:
        """Whether no holder of replicas is away that may come back, and no node has come back that may go again."""
        steady_s = min(STEADY_S, timeout_s)
        may_come = any(now - since < timeout_s for node_id, since in self._away_since.items() if node_id in holders)
        may_go = any(now - since < steady_s for since in self._present_since.values())
        return not may_come and not may_go
