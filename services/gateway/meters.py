"""What the gateway counts. Plain integers on the hot path, turned into Prometheus samples when somebody scrapes.

A client id is never a label: clients choose them, and there is no end of them (bad-inputs row 51).
"""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from libs.telemetry.metrics import Metrics
from libs.wire.api import ApiKey

BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
EDGES = (*(f"{edge:g}" for edge in BUCKETS_S), "+Inf")


class Latencies:
    """One histogram. An observation costs a bisection and three additions."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        total = 0
        samples: list[tuple[str, float]] = []
        for edge, count in zip(EDGES, self.counts, strict=True):
            total += count
            samples.append((edge, float(total)))
        return samples


class Meters:
    """A collector in the service's registry."""

    def __init__(self, metrics: Metrics) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections = 0
        self.connections_total = 0
        self.parked_bytes = 0
        self.parked_total = 0
        self.resent_total = 0
        self.closed: dict[str, int] = {}
        self.latencies: dict[int, Latencies] = {}
        self.produce_errors: dict[int, int] = {}
        metrics.registry.register(self)

    def opened(self) -> None:
        self.connections += 1
        self.connections_total += 1

    def ended(self, reason: str) -> None:
        self.connections -= 1
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def answered(self, api_key: int, seconds: float) -> None:
        latencies = self.latencies.get(api_key)
        if latencies is None:
            latencies = self.latencies[api_key] = Latencies()
        latencies.observe(seconds)

    def produce_failed(self, error: int) -> None:
        self.produce_errors[error] = self.produce_errors.get(error, 0) + 1

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("penstock_gateway_bytes_in", "Bytes received from clients.", value=self.bytes_in)
        yield CounterMetricFamily("penstock_gateway_bytes_out", "Bytes answered to clients.", value=self.bytes_out)
        yield GaugeMetricFamily("penstock_gateway_connections", "Client connections open now.", value=self.connections)
        yield CounterMetricFamily(
            "penstock_gateway_connections_opened", "Client connections accepted.", value=self.connections_total
        )
        yield GaugeMetricFamily("penstock_gateway_parked_bytes", "Bytes that wait for a leader.", value=self.parked_bytes)
        yield CounterMetricFamily("penstock_gateway_parked", "Batches that waited for a leader.", value=self.parked_total)
        yield CounterMetricFamily("penstock_gateway_resent", "Batches resent after a lost connection.", value=self.resent_total)
        closed = CounterMetricFamily("penstock_gateway_connections_closed", "Client connections ended.", labels=["reason"])
        for reason, count in self.closed.items():
            closed.add_metric([reason], count)
        yield closed
        errors = CounterMetricFamily("penstock_gateway_produce_errors", "Partitions answered with an error.", labels=["code"])
        for code, count in self.produce_errors.items():
            errors.add_metric([str(code)], count)
        yield errors
        requests = CounterMetricFamily("penstock_gateway_requests", "Requests answered.", labels=["api"])
        durations = HistogramMetricFamily(
            "penstock_gateway_request_duration_seconds", "From the last byte received to the answer handed over.", labels=["api"]
        )
        for api_key, latencies in self.latencies.items():
            name = ApiKey(api_key).name.lower()
            samples = latencies.cumulative()
            requests.add_metric([name], samples[-1][1])
            durations.add_metric([name], samples, latencies.total_s)
        yield requests
        yield durations
