"""Definitions of metrics: name, HELP text, labels, and what an operator makes of the value.

A collector keeps plain numbers and makes samples from a definition when somebody scrapes. docs/operate/metrics.md is written from
the definitions, so a metric without one does not exist (tests/docs/test_metrics_page.py).
"""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from libs.lean_dataclass import dataclass
from libs.telemetry.durations import Durations

Labels = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What all kinds of metrics have. `labels` are the label names."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    healthy: str
    """The range in which nothing needs to be done."""
    otherwise: str = ""
    """What to do when the value is out of that range. Empty: no value is out of range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDefinition(Definition):
    """A count since the start of the process. Prometheus adds `_total` to its name."""

    def sample(self, value: float) -> CounterMetricFamily:
        return CounterMetricFamily(self.name, self.help, value)

    def samples(self, values: Iterable[tuple[Labels, float]]) -> CounterMetricFamily:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeDefinition(Definition):
    """A value at the moment of the scrape."""

    def sample(self, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.name, self.help, value)

    def samples(self, values: Iterable[tuple[Labels, float]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramDefinition(Definition):
    """Durations in seconds since the start of the process. Prometheus adds `_bucket`, `_sum` and `_count` to its name."""

    def sample(self, durations: Durations) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self.help, durations.cumulative(), durations.total_s)

    def samples(self, values: Iterable[tuple[Labels, Durations]]) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, durations in values:
            family.add_metric(labels, durations.cumulative(), durations.total_s)
        return family
