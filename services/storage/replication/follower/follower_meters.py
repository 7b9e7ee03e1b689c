"""Metrics of a node as a follower, under Kafka's names (ReplicaFetcherManager, FetcherLagMetrics, FetcherStats)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from libs.telemetry.definitions import CounterDefinition, Family, GaugeDefinition, MetricSet, Rows
from libs.telemetry.metrics import Metrics
from services.storage.core.replication.follower.following import State

if TYPE_CHECKING:
    from services.storage.replication.follower.fetcher import ReplicaFetcher


class FollowerMeters(MetricSet):
    """A collector in the service's registry. It counts by leader, not by partition, of which there may be ten thousand."""

    bytes_in: dict[int, int] = CounterDefinition(
        name="kafka_server_fetcherstats_bytes",
        help="Bytes of record batches that this node copied, by leader.",
        labels=("leader",),
        healthy="follows the load",
    ).kept()
    requests: dict[int, int] = CounterDefinition(
        name="kafka_server_fetcherstats_requests",
        help="Answered pulls of this node, by leader.",
        labels=("leader",),
        healthy="follows the load; a few in a second at rest",
        otherwise="None from one leader: look at that node, and at the network between the two.",
    ).kept()
    cuts: int = CounterDefinition(
        name="penstock_storage_follower_cuts",
        help="Truncations of followed logs, and logs that were begun anew.",
        healthy="rises only when leaders change or this node restarts",
        otherwise="Leaders change often. Look for storage nodes that restart or hang.",
    ).kept()

    def __init__(self, metrics: Metrics, fetchers: "Callable[[], Iterable[ReplicaFetcher]]") -> None:
        super().__init__()
        self._fetchers = fetchers
        metrics.registry.register(self)

    def pulled(self, leader: int) -> None:
        self.requests[leader] = self.requests.get(leader, 0) + 1

    def copied(self, leader: int, size: int) -> None:
        self.bytes_in[leader] = self.bytes_in.get(leader, 0) + size

    @CounterDefinition(
        name="kafka_server_brokertopicmetrics_replicationbytesin",
        help="Bytes of record batches that this node copied from leaders.",
        healthy="follows the load",
    )
    def bytes_in_of_all(self) -> int:
        return sum(self.bytes_in.values())

    def families(self) -> Iterator[Family | None]:
        yield from super().families()
        yield from FollowerGauges(list(self._fetchers())).families()


class FollowerGauges(MetricSet):
    """The followed partitions at a scrape, for which it is made."""

    def __init__(self, fetchers: "Sequence[ReplicaFetcher]") -> None:
        super().__init__()
        self._followed = [partition for fetcher in fetchers for partition in fetcher.followed.values()]
        self._lags = {
            fetcher.leader: max((partition.lag for partition in fetcher.followed.values()), default=0) for fetcher in fetchers
        }

    @GaugeDefinition(
        name="kafka_server_replicafetchermanager_maxlag",
        help="Offsets that the slowest followed partition is behind its leader.",
        healthy="a second's worth of records; more only while the node catches up",
        otherwise="Look at this node's disk and CPU, and at `follower.replication.throttled.rate`.",
    )
    def max_lag(self) -> int:
        return max(self._lags.values(), default=0)

    @GaugeDefinition(
        name="kafka_server_replicafetchermanager_failedpartitionscount",
        help="Followed partitions that wait after an error, or whose log failed.",
        healthy="0",
        otherwise="Look for the partition in the node's log.",
    )
    def failed(self) -> int:
        return sum(partition.state in (State.BACKING_OFF, State.OFFLINE) for partition in self._followed)

    @GaugeDefinition(
        name="penstock_storage_followed_partitions",
        help="Partitions that this node follows.",
        healthy="replicas on this node, less the partitions that it leads",
    )
    def followed(self) -> int:
        return len(self._followed)

    @GaugeDefinition(
        name="kafka_server_fetcherlagmetrics_consumerlag",
        help="Offsets that the slowest followed partition is behind, by leader.",
        labels=("leader",),
        healthy="as `kafka_server_replicafetchermanager_maxlag`",
        otherwise="Behind one leader only: look at that leader, and at the network between the two.",
    )
    def lags(self) -> Rows:
        return [([f"{leader}"], lag) for leader, lag in self._lags.items()]
