"""What a group coordinator has now, as metrics: computed when scraped, so that nothing is counted while nobody looks."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.group_coordinator.meters import NAME
from services.group_coordinator.service import GroupCoordinator


class Gauges(Collector):
    """And all that `Meters` and `LagSeries` tell."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def collect(self) -> Iterator[Metric]:
        coordinator = self._coordinator
        groups = GaugeMetricFamily(NAME + "groups", "Groups of the shards that are served here.", labels=["kind", "state"])
        for (kind, state), count in sorted(coordinator.seen.states().items()):
            groups.add_metric([kind, state], count)
        yield groups
        members = GaugeMetricFamily(NAME + "members", "Members of those groups.", labels=["kind"])
        for kind, count in sorted(coordinator.seen.members().items()):
            members.add_metric([kind], count)
        yield members
        shards = GaugeMetricFamily(NAME + "shards", "Shards that this process owns.", labels=["state"])
        for name, count in sorted(Counter(driver.state.value for driver in coordinator.shards.owned.values()).items()):
            shards.add_metric([name], count)
        yield shards
        yield from coordinator.meters.collect()
        yield from coordinator.lag_series.collect()
