"""The text of metrics, in Prometheus' format and in OpenMetrics 1.0, in pieces of little work.

https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/specs/om/open_metrics_spec/. The
library's writers make a whole registry's text at once: with a thousand topics they would hold up the event loop for long.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from libs.telemetry.definitions import CounterDefinition, Definition, Family, FamilySource, HistogramDefinition
from libs.telemetry.durations import Durations
from libs.telemetry.go_numbers import go_number

PIECE_LINES: Final = 100
"""The lines of a piece, or a few more: about 0.1 ms."""


class Format(Enum):
    """The value is the content type."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def format_for(accept: str) -> Format:
    """The format that a client prefers, by its `Accept` header. OpenMetrics only if it names that."""
    weights: dict[str, float] = {}
    for media_range in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
        of_range = dict(parameter.partition("=")[::2] for parameter in parameters)
        if kind != "application/openmetrics-text" or of_range.get("version", "1.0.0") == "1.0.0":
            weights[kind] = max(weights.get(kind, 0.0), _weight(of_range.get("q", "1")))
    open_metrics = weights.get("application/openmetrics-text", 0.0)
    return Format.OPENMETRICS if open_metrics > 0.0 and open_metrics >= weights.get("text/plain", 0.0) else Format.PROMETHEUS


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def pieces(collectors: Iterable[Collector], form: Format) -> Iterator[str]:
    """The text of all that they collect. An empty piece: a collector has looked at many things, and has no text yet."""
    for collector in collectors:
        if isinstance(collector, FamilySource):
            for family in collector.families():
                if family is None:
                    yield ""
                else:
                    yield from _pieces_of(family, form)
        else:
            for metric in collector.collect():
                yield _whole(metric, form)
    if form is Format.OPENMETRICS:
        yield "# EOF\n"


def _pieces_of(family: Family, form: Format) -> Iterator[str]:
    definition, value = family
    lines = [_head(definition.name, _kind_of(definition), definition.help, form)]
    name = f"{definition.name}_total" if isinstance(definition, CounterDefinition) else definition.name
    for values, sample in definition.rows(value):
        labels = _labels(definition.labels, values)
        if isinstance(sample, Durations):
            lines += _histogram(name, labels, sample, form)
        else:
            lines.append(_line(name, labels, sample))
        if len(lines) >= PIECE_LINES:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def _kind_of(definition: Definition) -> str:
    if isinstance(definition, HistogramDefinition):
        return "histogram"
    return "counter" if isinstance(definition, CounterDefinition) else "gauge"


def _histogram(name: str, labels: str, durations: Durations, form: Format) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    exemplars = durations.exemplars if form is Format.OPENMETRICS else {}
    count = 0.0
    for bucket, (edge, count) in enumerate(durations.cumulative()):
        exemplar = exemplars.get(bucket)
        yield f'{name}_bucket{{{before}le="{edge}"}} {go_number(count)}{"" if exemplar is None else f" # {exemplar}"}\n'
    yield _line(f"{name}_count", labels, count)
    yield _line(f"{name}_sum", labels, durations.total_s)


def _whole(metric: Metric, form: Format) -> str:
    """What a collector of the library has: a few samples."""
    lines = [_head(metric.name, metric.type, metric.documentation, form)]
    for sample in metric.samples:
        labels = _labels(list(sample.labels), list(sample.labels.values()))
        lines.append(_line(sample.name, labels, sample.value))
    return "".join(lines)


def _line(name: str, labels: str, value: float) -> str:
    return f"{name}{{{labels}}} {go_number(value)}\n" if labels else f"{name} {go_number(value)}\n"


def _head(name: str, kind: str, text: str, form: Format) -> str:
    if form is Format.PROMETHEUS:
        if kind in ("counter", "info"):
            name += "_total" if kind == "counter" else "_info"
        kind = {"info": "gauge", "unknown": "untyped"}.get(kind, kind)
        text = text.replace("\\", r"\\").replace("\n", r"\n")
    else:
        text = _escaped(text)
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)])


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value
