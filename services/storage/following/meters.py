"""What a node counts as a follower, under Kafka's names (ReplicaFetcherManager, FetcherLagMetrics, FetcherStats)."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from libs.telemetry.metrics import Metrics
from services.storage.core.following import State

if TYPE_CHECKING:
    from services.storage.following.link import LeaderLink


class FollowerMeters:
    """A collector in the service's registry. By leader, not by partition: there may be ten thousand of those."""

    def __init__(self, metrics: Metrics, links: "Callable[[], Iterable[LeaderLink]]") -> None:
        self._links = links
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
        for link in self._links():
            lags[link.leader] = max((one.lag for one in link.followed.values()), default=0)
            followed += len(link.followed)
            failed += sum(one.state in (State.WAITING, State.OFFLINE) for one in link.followed.values())
        manager = "kafka_server_replicafetchermanager_"
        for name, text, value in (
            (manager + "maxlag", "By how many offsets the slowest followed partition is behind.", max(lags.values(), default=0)),
            (manager + "failedpartitionscount", "Followed partitions that wait, or whose disk failed.", failed),
            ("penstock_storage_followed_partitions", "Partitions that are followed.", followed),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        lag = GaugeMetricFamily(
            "kafka_server_fetcherlagmetrics_consumerlag", "The same, of each leader's partitions.", labels=["leader"]
        )
        for leader, value in lags.items():
            lag.add_metric([f"{leader}"], value)
        yield lag
        for name, text, counts in (
            ("bytes", "Bytes of record batches copied, by leader.", self.bytes_in),
            ("requests", "Pulls that were answered, by leader.", self.requests),
        ):
            family = CounterMetricFamily(f"kafka_server_fetcherstats_{name}", text, labels=["leader"])
            for leader, value in counts.items():
                family.add_metric([f"{leader}"], value)
            yield family
        yield CounterMetricFamily(
            "kafka_server_brokertopicmetrics_replicationbytesin", "Bytes copied.", value=sum(self.bytes_in.values())
        )
        yield CounterMetricFamily(
            "penstock_storage_follower_cuts", "Logs of followers that were cut or begun anew.", value=self.cuts
        )
