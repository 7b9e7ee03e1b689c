"""Situations of a cluster, and the alerts that fire in each: all that should, and no other."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.support.polling import eventually
from tests.system.monitoring.prometheus_server import ASK_EVERY_S, Prometheus

FIRING: Final = 'ALERTS{alertstate="firing"}'
STARVED: Final = "scrape_duration_seconds > 0.5"
"""A process answers a scrape within hundredths of a second, unless it gets no CPU."""
ANYWHERE: Final = frozenset({"PenstockProducesHeldUp"})
"""A disk that syncs for half a second fires it, as any busy machine's may. So no situation proves that it does not fire."""
OF_STALLED: Final = frozenset({"PenstockProduceSlow"})
"""What such a disk brings about besides, if it takes a second."""
OF_STARVED: Final = frozenset(
    {
        "PenstockProcessDown",
        "PenstockNodeFenced",
        "PenstockUnderReplicated",
        "PenstockIsrUnstable",
        "PenstockMetadataStoreSlow",
        "PenstockLeadersNotPreferred",
        "PenstockNoActiveController",
        "PenstockNoQuotaManager",
        "PenstockUnownedShards",
        "PenstockGatewaySilent",
        "PenstockRebalanceStuck",
        "PenstockProduceSlow",
        "PenstockProducesExpired",
        "PenstockBatchesParked",
    }
)
"""What is true of processes without CPU, for all that others can tell: they are slow, silent, or left out."""


class Watch:
    """`fired`: the alerts of each situation that has ended. `problems`: what should not be, in sentences."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.fired: dict[str, set[str]] = {}
        self.problems: list[str] = []

    @contextmanager
    def situation(self, name: str, *expected: str, may: Collection[str] = (), mended: bool = True) -> Iterator[None]:
        """The body breaks something, waits by `fires`, and mends it. Then nothing may fire any more, or be about to.

        `may`: alerts of what follows from it, which last too briefly on a fast machine to fire.
        """
        begun = time.time()
        yield
        if mended:
            eventually(lambda: self._prometheus.query("ALERTS") == [], pause_s=ASK_EVERY_S)
        fired = self._prometheus.firing() | {
            labels["alertname"] for labels, _ in self._prometheus.query_range(FIRING, begun, time.time())
        }
        self.fired[name] = fired
        stalled = OF_STALLED if fired & ANYWHERE else frozenset()
        if others := fired - set(expected) - set(may) - ANYWHERE - stalled - self._of_starved(begun):
            self.problems.append(f"{name}: {sorted(others)} fired, too")
        if missing := set(expected) - fired:
            self.problems.append(f"{name}: {sorted(missing)} did not fire")

    def _of_starved(self, since: float) -> frozenset[str]:
        """The alerts that may fire in any situation, if the machine had too little CPU meanwhile."""
        return OF_STARVED if self._prometheus.query_range(STARVED, since, time.time()) else frozenset()

    def fires(self, *names: str) -> None:
        """Returns when all of these fire."""
        eventually(lambda: not_yet(names, self._prometheus.firing()) == set(), pause_s=ASK_EVERY_S)


def not_yet(names: Sequence[str], firing: set[str]) -> set[str]:
    return set(names) - firing
