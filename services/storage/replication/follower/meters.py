"""Metrics of a node as a follower, under Kafka's names (ReplicaFetcherManager, FetcherLagMetrics, FetcherStats)."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition
from libs.telemetry.metrics import Metrics
from services.storage.core.replication.follower.following import State

if TYPE_CHECKING:
    from services.storage.replication.follower.fetcher import ReplicaFetcher

MAX_LAG = GaugeDefinition(
    name="kafka_server_replicafetchermanager_maxlag",
    help="Offsets that the slowest followed partition is behind its leader.",
    healthy="a second's worth of records; more only while the node catches up",
    otherwise="Look at this node's disk and CPU, and at `follower.replication.throttled.rate`.",
)
FAILED_PARTITIONS = GaugeDefinition(
    name="kafka_server_replicafetchermanager_failedpartitionscount",
    help="Followed partitions that wait after an error, or whose log failed.",
    healthy="0",
    otherwise="Look for the partition in the node's log.",
)
FOLLOWED = GaugeDefinition(
    name="penstock_storage_followed_partitions",
    help="Partitions that this node follows.",
    healthy="replicas on this node, less the partitions that it leads",
)
CONSUMER_LAG = GaugeDefinition(
    name="kafka_server_fetcherlagmetrics_consumerlag",
    help="Offsets that the slowest followed partition is behind, by leader.",
    labels=("leader",),
    healthy="as `kafka_server_replicafetchermanager_maxlag`",
    otherwise="Behind one leader only: look at that leader, and at the network between the two.",
)
FETCHER_BYTES = CounterDefinition(
    name="kafka_server_fetcherstats_bytes",
    help="Bytes of record batches that this node copied, by leader.",
    labels=("leader",),
    healthy="follows the load",
)
FETCHER_REQUESTS = CounterDefinition(
    name="kafka_server_fetcherstats_requests",
    help="Answered pulls of this node, by leader.",
    labels=("leader",),
    healthy="follows the load; a few in a second at rest",
    otherwise="None from one leader: look at that node, and at the network between the two.",
)
REPLICATION_BYTES_IN = CounterDefinition(
    name="kafka_server_brokertopicmetrics_replicationbytesin",
    help="Bytes of record batches that this node copied from leaders.",
    healthy="follows the load",
)
TRUNCATIONS = CounterDefinition(
    name="penstock_storage_follower_cuts",
    help="Truncations of followed logs, and logs that were begun anew.",
    healthy="rises only when leaders change or this node restarts",
    otherwise="Leaders change often. Look for storage nodes that restart or hang.",
)


class FollowerMeters:
    """A collector in the service's registry. It counts by leader, not by partition, of which there may be ten thousand."""

    def __init__(self, metrics: Metrics, fetchers: "Callable[[], Iterable[ReplicaFetcher]]") -> None:
        self._fetchers = fetchers
        self.bytes_in: dict[int, int] = {}
        self.requests: dict[int, int] = {}
        self.cuts = 0
        metrics.registry.register(self)

    def pulled(self, leader: int) -> None:
        self.requests[leader] = self.requests.get(leader, 0) + 1

    def copied(self, leader: int, size: int) -> None:
        self.bytes_in[leader] = self.bytes_in.get(leader, 0) + size

    def collect(self) -> Iterator[Metric]:
        lags, followed, failed = {}, 0, 0
        for fetcher in self._fetchers():
            lags[fetcher.leader] = max((partition.lag for partition in fetcher.followed.values()), default=0)
            followed += len(fetcher.followed)
            failed += sum(partition.state in (State.BACKING_OFF, State.OFFLINE) for partition in fetcher.followed.values())
        yield MAX_LAG.sample(max(lags.values(), default=0))
        yield FAILED_PARTITIONS.sample(failed)
        yield FOLLOWED.sample(followed)
        yield CONSUMER_LAG.samples(((f"{leader}",), lag) for leader, lag in lags.items())
        yield FETCHER_BYTES.samples(((f"{leader}",), size) for leader, size in self.bytes_in.items())
        yield FETCHER_REQUESTS.samples(((f"{leader}",), count) for leader, count in self.requests.items())
        yield REPLICATION_BYTES_IN.sample(sum(self.bytes_in.values()))
        yield TRUNCATIONS.sample(self.cuts)
