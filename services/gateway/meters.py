"""What the gateway counts. Plain integers on the hot path, turned into Prometheus samples when somebody scrapes.

A client id is never a label: clients choose them, and there is no end of them (bad-inputs row 51).
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from libs.telemetry.durations import Durations
from libs.telemetry.metrics import Metrics
from libs.telemetry.stages import Stage, StageDurations
from libs.wire.api import ApiKey


class ApiDurations:
    """Of the requests of one API: in all, and by stage for those that a storage node or a coordinator was asked for."""

    __slots__ = ("answered", "in_all", "sent", "stages")

    def __init__(self) -> None:
        self.in_all = Durations()
        self.stages = StageDurations(Stage.SENT, Stage.ANSWERED)
        self.sent = self.stages.of(Stage.SENT)
        self.answered = self.stages.of(Stage.ANSWERED)


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
        self.durations: dict[int, ApiDurations] = {}
        self.produce_errors: dict[int, int] = {}
        metrics.registry.register(self)

    def opened(self) -> None:
        self.connections += 1
        self.connections_total += 1

    def ended(self, reason: str) -> None:
        self.connections -= 1
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def answered(self, api_key: int, received_at: float, sent_at: float, now: float) -> None:
        """`sent_at` 0.0: nobody was asked."""
        durations = self.durations.get(api_key)
        if durations is None:
            durations = self.durations[api_key] = ApiDurations()
        durations.in_all.observe(now - received_at)
        if sent_at:
            durations.sent.observe(sent_at - received_at)
            durations.answered.observe(now - sent_at)

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
        stages = HistogramMetricFamily(
            "penstock_gateway_request_stage_seconds",
            "Until sent to a storage node or a group's coordinator, and from there until answered; of what was sent to a storage "
            "node again, from the last time on.",
            labels=["api", "stage"],
        )
        for api_key, of_api in self.durations.items():
            name = ApiKey(api_key).name.lower()
            requests.add_metric([name], of_api.in_all.count)
            durations.add_metric([name], of_api.in_all.cumulative(), of_api.in_all.total_s)
            if of_api.sent.count:
                of_api.stages.add_to(stages, name)
        yield requests
        yield durations
        yield stages
