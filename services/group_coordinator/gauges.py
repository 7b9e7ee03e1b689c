"""Gauges of a group coordinator, computed when somebody scrapes."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.shards import unwritable_decisions
from libs.telemetry.definitions import GaugeDefinition
from services.group_coordinator.coordinator import GroupCoordinator
from services.group_coordinator.telemetry.meters import NAME

GROUPS = GaugeDefinition(
    name=NAME + "groups",
    help="Groups of the shards that this process serves, by kind and state.",
    labels=("kind", "state"),
    healthy="`Stable`, and `Empty` for groups without members",
    otherwise="A group that stays in another state does not finish its rebalance. In `/debug/groups/GROUP`, `awaited` of a "
    "member tells what the group waits for.",
)
MEMBERS = GaugeDefinition(
    name=NAME + "members",
    help="Members of the groups that this process serves, by kind of group.",
    labels=("kind",),
    healthy="as many as your consumers",
    otherwise="Fewer: members were removed. The log tells which, and why.",
)
REBALANCING = GaugeDefinition(
    name=NAME + "longest_rebalance_seconds",
    help="Age of the longest rebalance under way in the shards that this process serves. 0: there is none. "
    "A rebalance that begins anew counts on; one that was under way when this process loaded its shard does not count.",
    healthy="below the longest rebalance timeout of your consumers (`max.poll.interval.ms`)",
    otherwise="A member does not join again or does not give its partitions up. `/health` of a controller names the group, and "
    "`/debug/groups/GROUP` for whom it waits.",
)
SHARDS = GaugeDefinition(
    name=NAME + "shards",
    help="Shards that this process owns, by state.",
    labels=("state",),
    healthy="`serving`; other states for seconds after a coordinator or leader changed",
    otherwise="A shard that stays `claiming` or `loading`: its partition has no leader. Look at the storage nodes.",
)

UNWRITABLE = unwritable_decisions.definition(NAME, GROUP_TOPIC)


class Gauges(Collector):
    """The collector of a group coordinator: its gauges, and all that `Meters` and `LagMetrics` collect."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def collect(self) -> Iterator[Metric]:
        coordinator = self._coordinator
        yield GROUPS.samples(sorted(coordinator.group_views.states().items()))
        yield MEMBERS.samples(((kind,), count) for kind, count in sorted(coordinator.group_views.members().items()))
        yield REBALANCING.sample(coordinator.longest_rebalance_s())
        states = Counter(driver.state.value for driver in coordinator.shards.owned.values())
        yield SHARDS.samples(((state,), count) for state, count in sorted(states.items()))
        yield UNWRITABLE.samples(sorted(coordinator.shards.unwritable.counts.items()))
        yield from coordinator.meters.collect()
        yield from coordinator.lag_series.collect()
