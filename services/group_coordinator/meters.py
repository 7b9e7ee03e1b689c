"""What a group coordinator counts. Plain integers while it works, turned into Prometheus samples when somebody scrapes.

Rebalances and expired offsets are counted when they are committed, requests when they are answered.

Members and clients are never labels: clients choose their names, and there is no end of them. Groups are only where
`lag_series_max` allows some (`lag_series.py`).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from libs.telemetry.durations import Durations
from libs.wire.messages.offset_commit import OffsetCommitResponse
from services.group_coordinator.apis import Api

NAME: Final = "penstock_groups_"
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class Meters:
    """`collect` is a part of a collector."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By API, and by the error that a gateway was answered with."""
        self.committed = 0
        self.expired = 0
        self.rebalances: Counter[str] = Counter()
        """Begun, by kind of group."""
        self.rebalance_times = {CLASSIC: Durations(), CONSUMER: Durations()}
        self.loads = Durations()
        """From the moment that a shard was given, or lost its place, until it served."""

    def answered(self, api: Api, error: int, response: object) -> None:
        self.requests[api.name, error] += 1
        if type(response) is OffsetCommitResponse and not error:
            for topic in response.topics:
                for part in topic.partitions:
                    self.committed += not part.error_code

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            NAME + "requests",
            "Answers to gateways, heartbeats among them: one for each shard that a client's request is about (ListGroups: "
            "every shard). Error 0 is the group's own answer, which may refuse; after 14 and 16 a gateway asks again.",
            labels=["api", "error"],
        )
        for (api, error), count in sorted(self.requests.items()):
            requests.add_metric([api, str(error)], count)
        yield requests
        yield CounterMetricFamily(NAME + "offsets_committed", "Offsets of partitions that consumers committed.", self.committed)
        yield CounterMetricFamily(NAME + "offsets_expired", "Offsets that were removed since nobody used them.", self.expired)
        rebalances = CounterMetricFamily(NAME + "rebalances", "Rebalances begun.", labels=["kind"])
        times = HistogramMetricFamily(
            NAME + "rebalance_seconds",
            "From the moment that a rebalance began until the group was stable, or empty; one that began anew counts on.",
            labels=["kind"],
        )
        for kind, durations in self.rebalance_times.items():
            rebalances.add_metric([kind], self.rebalances[kind])
            times.add_metric([kind], durations.cumulative(), durations.total_s)
        yield rebalances
        yield times
        doc = "From the moment that a shard was given to this process, or lost its leader, until it served; the count: how often."
        yield self.loads.family(NAME + "shard_load_seconds", doc)
