"""Who is away for how long, and who has only just come, as far as one controller has seen in its term."""

from collections.abc import Iterable, Set

STEADY_S = 60.0
"""A node that came is believed to stay after so long; sooner where nobody waits that long for those that are away."""


class Absences:
    """Whoever is away when we begin to look counts as away from then on; whoever is there has always been."""

    __slots__ = ("_away", "_began", "_came")

    def __init__(self) -> None:
        self._away: dict[int, float] = {}
        self._came: dict[int, float] = {}
        self._began = False

    def look(self, known: Iterable[int], here: Set[int], now: float) -> None:
        """`known` is everybody who may be missed."""
        missed = sorted(node_id for node_id in known if node_id not in here)
        if self._began:
            returned = (node_id for node_id in here if node_id not in self._came)
            self._came.update(dict.fromkeys(sorted(returned), now))
        else:
            self._began = True
            self._came = dict.fromkeys(sorted(here), now - STEADY_S)
        self._came = {node_id: came for node_id, came in self._came.items() if node_id in here}
        self._away = {node_id: self._away.get(node_id, now) for node_id in missed}

    def away_s(self, now: float) -> dict[int, float]:
        return {node_id: now - since for node_id, since in self._away.items()}

    def gone(self, now: float, patience_s: float) -> frozenset[int]:
        return frozenset(node_id for node_id, since in self._away.items() if now - since >= patience_s)

    def calm(self, now: float, patience_s: float, holders: Set[int]) -> bool:
        """None of `holders` is away who may come back, and nobody has come who may go again."""
        steady_s = min(STEADY_S, patience_s)
        may_come = any(now - since < patience_s for node_id, since in self._away.items() if node_id in holders)
        may_go = any(now - came < steady_s for came in self._came.values())
        return not may_come and not may_go
