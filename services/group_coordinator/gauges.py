"""Gauges of a group coordinator, computed when somebody scrapes."""

from collections.abc import Iterator

from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.shards.shard_metrics import shards_by_state, unwritable_decisions
from libs.telemetry.definitions import Family, GaugeDefinition, MetricSet, Rows
from services.group_coordinator.coordinator import GroupCoordinator
from services.group_coordinator.telemetry.group_meters import NAME


class GroupGauges(MetricSet):
    """The collector of a group coordinator: its gauges, and all that `Meters` and `LagMetrics` collect."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        super().__init__()
        self._coordinator = coordinator

    @GaugeDefinition(
        name=NAME + "groups",
        help="Groups of the shards that this process serves, by kind and state.",
        labels=("kind", "state"),
        healthy="`Stable`, and `Empty` for groups without members",
        otherwise="A group that stays in another state does not finish its rebalance. In `/debug/groups/GROUP`, `awaited` of a "
        "member tells what the group waits for.",
    )
    def groups(self) -> Rows:
        return sorted(self._coordinator.group_views.states().items())

    @GaugeDefinition(
        name=NAME + "members",
        help="Members of the groups that this process serves, by kind of group.",
        labels=("kind",),
        healthy="as many as your consumers",
        otherwise="Fewer: members were removed. The log tells which, and why.",
    )
    def members(self) -> Rows:
        return [((kind,), count) for kind, count in sorted(self._coordinator.group_views.members().items())]

    @GaugeDefinition(
        name=NAME + "longest_rebalance_seconds",
        help="Age of the longest rebalance under way in the shards that this process serves. 0: there is none. "
        "A rebalance that begins anew counts on; one that was under way when this process loaded its shard does not count.",
        healthy="below the longest rebalance timeout of your consumers (`max.poll.interval.ms`)",
        otherwise="A member does not join again or does not give its partitions up. `/health` of a controller names the group, "
        "and `/debug/groups/GROUP` for whom it waits.",
    )
    def longest_rebalance_s(self) -> float:
        return self._coordinator.longest_rebalance_s()

    @shards_by_state(NAME)
    def shards(self) -> Rows:
        return self._coordinator.shards.by_state()

    @unwritable_decisions(NAME, GROUP_TOPIC)
    def unwritable(self) -> Rows:
        return sorted(self._coordinator.shards.unwritable.counts.items())

    def families(self) -> Iterator[Family | None]:
        yield from super().families()
        yield from self._coordinator.meters.families()
        yield from self._coordinator.lag_series.families()
