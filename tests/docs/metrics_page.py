"""Writes docs/operate/metrics.md from the definitions of metrics: what they mean, what is healthy, and what to do.

`python -m tests.docs.metrics_page [--check]`
"""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from libs.cluster.measured_store import MeasuredStore
from libs.rpc.server.denied_calls import DeniedCalls
from libs.runtime.etcd_store import EtcdCertificates
from libs.runtime.peer_tls import PeerCertificate
from libs.telemetry.definitions import CounterDefinition, Definition, GaugeDefinition, HistogramDefinition, MetricSet
from libs.telemetry.interruptions import Interruptions
from libs.telemetry.metrics import Build, Metrics
from libs.telemetry.process_memory import ProcessMemory
from libs.telemetry.process_use import ProcessUse
from libs.telemetry.tracing.exporting.export_meters import ExportMeters
from libs.telemetry.tracing.span_meters import SpanMeters
from services.gateway.protocol_docs.protocol_page import write_page
from tests.monitoring.alerts import ALERTS, Alert, expression_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "metrics.md"

_TOP = """# Metrics

Made by `python -m tests.docs.metrics_page` from the definitions in the code; do not edit.

Each process serves Prometheus' text format at `/metrics` on its admin port. `make status` shows the addresses. A metric of Kafka
has Kafka's name, in the form that Prometheus exporters give to JMX names; the others begin with `penstock_`.

```
curl 127.0.0.1:9144/metrics
```

- A **counter** counts since the start of the process: look at its rate, `rate(NAME[5m])`.
- A **gauge** is the value at the moment of the scrape.
- A **histogram** has `_bucket`, `_sum` and `_count`. Its mean is `rate(NAME_sum[5m]) / rate(NAME_count[5m])`.

A client that prefers OpenMetrics 1.0 gets that, as Prometheus does by its `Accept` header. Then buckets of
`kafka_network_requestmetrics` have exemplars: the trace id of a request that took so long. Prometheus keeps them with
`--enable-feature=exemplar-storage`. A scrape works for a millisecond in each turn of the event loop, so it takes longer in a busy
process, and holds no request up. Scrapes at the same time take their turn.

Labels have bounds. `PENSTOCK_TOPIC_SERIES_MAX`, `PENSTOCK_PARTITION_SERIES_MAX` and `PENSTOCK_LAG_SERIES_MAX` limit how many
topics, partitions and partitions of groups have time series of their own. Other topics are counted together, as the topic
`(other)`: the sum over `topic` is that of the node. `penstock_storage_topics_without_series`,
`penstock_storage_partitions_without_series` and `penstock_groups_lag_series_left_out` tell how many have none. 300 users and
clients that a quota names have series, and `penstock_quota_manager_entities_without_series` tells how many more are in use.
Other clients, and members, are never labels.

## What Kafka's operators watch

| in Kafka | here | kind | healthy |
|---|---|---|---|
"""

KAFKA: Final = (
    ("ReplicaManager UnderReplicatedPartitions", "kafka_server_replicamanager_underreplicatedpartitions"),
    ("ReplicaManager UnderMinIsrPartitionCount", "kafka_server_replicamanager_underminisrpartitioncount"),
    ("ReplicaManager IsrShrinksPerSec", "kafka_server_replicamanager_isrshrinks"),
    ("ReplicaManager IsrExpandsPerSec", "kafka_server_replicamanager_isrexpands"),
    ("KafkaController OfflinePartitionsCount", "kafka_controller_kafkacontroller_offlinepartitionscount"),
    ("KafkaController ActiveControllerCount", "kafka_controller_kafkacontroller_activecontrollercount"),
    ("ControllerStats UncleanLeaderElectionsPerSec", "kafka_controller_controllerstats_uncleanleaderelections"),
    ("ControllerStats LeaderElectionRateAndTimeMs", "kafka_controller_controllerstats_leaderelectionrateandtime_seconds"),
    ("RequestChannel RequestQueueSize", "kafka_network_requestchannel_requestqueuesize"),
    ("RequestMetrics TotalTimeMs", "kafka_network_requestmetrics_totaltime_seconds"),
    ("RequestMetrics RequestQueueTimeMs", "kafka_network_requestmetrics_requestqueuetime_seconds"),
    ("RequestMetrics LocalTimeMs", "kafka_network_requestmetrics_localtime_seconds"),
    ("RequestMetrics RemoteTimeMs", "kafka_network_requestmetrics_remotetime_seconds"),
    ("RequestMetrics ThrottleTimeMs", "kafka_network_requestmetrics_throttletime_seconds"),
    ("RequestMetrics ResponseQueueTimeMs", "kafka_network_requestmetrics_responsequeuetime_seconds"),
    ("RequestMetrics ResponseSendTimeMs", "kafka_network_requestmetrics_responsesendtime_seconds"),
    ("LogFlushStats LogFlushRateAndTimeMs", "kafka_log_logflushstats_logflushrateandtimes_seconds"),
    ("LogCleaner LogCleanerIoRatio", "kafka_log_logcleaner_io_ratio"),
)
"""The names in Kafka, and those of definitions."""

_ALERTS = """
Times are histograms in seconds, not percentiles in milliseconds, and rates are counters: `rate()` of Prometheus makes the latter.

## What to watch

The alerts of `charts/penstock/rules/penstock.yaml`, which [dashboards.md](dashboards.md) brings to Prometheus. Each leads to what
to do. `job` is the label under which one cluster is scraped.

| alert | severity | when | for |
|---|---|---|--:|
"""

STORE: Final = "metadata_store"
"""The title of what every process of a cluster measures of the store."""
TRACES: Final = "traces"
"""The title of what processes measure of the spans that they make and export."""
RPC: Final = "rpc"
"""The title of what processes count of each other's calls."""


PROCESS: Final = {
    definition.name: definition
    for each in (Build, ProcessUse, ProcessMemory, Interruptions)
    for definition in each.definitions.values()
}
"""What each process measures of itself."""
FROM_LIBRARY: Final = {
    "python_gc_objects_collected": "any",
    "python_gc_objects_uncollectable": "0",
    "python_gc_collections": "any",
    "python_info": "1",
}
"""The healthy range of what prometheus_client itself measures of a process."""


def definitions() -> dict[str, list[Definition]]:
    """By service: the metrics that its classes declare, in the order of the files."""
    found: dict[str, list[Definition]] = {
        STORE: [*MeasuredStore.definitions.values(), *EtcdCertificates.definitions.values()],
        RPC: [*DeniedCalls.definitions.values(), *PeerCertificate.definitions.values()],
        TRACES: [definition for each in (SpanMeters, ExportMeters) for definition in each.definitions.values()],
    }
    for path in sorted((ROOT / "services").rglob("*.py")):
        service = path.relative_to(ROOT / "services").parts[0]
        for each in metric_sets(path):
            found.setdefault(service, []).extend(each.definitions.values())
    return found


def metric_sets(path: Path) -> list[type[MetricSet]]:
    """The classes of a module that declare metrics."""
    if "libs.telemetry.definitions" not in path.read_text(encoding="utf-8"):
        return []
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    classes = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, MetricSet)]
    return [each for each in classes if each.__module__ == module.__name__]


def page() -> str:
    services = definitions()
    by_name = {definition.name: definition for each in services.values() for definition in each}
    return "".join(
        [
            _TOP,
            *(_kafka_row(name, by_name[here]) for name, here in KAFKA),
            _ALERTS,
            *(_alert_row(alert) for alert in ALERTS),
            *(line + "\n" for service, each in services.items() for line in _section(service, each)),
            "\n## Every process\n\n| metric | kind | labels | meaning | healthy | otherwise |\n|---|---|---|---|---|---|\n",
            *(line + "\n" for line in _process_rows()),
        ]
    )


def _alert_row(alert: Alert) -> str:
    link = f"[{alert.name}](alerts.md#{alert.name.lower()})"
    return f"| {link} | {alert.severity} | `{expression_of(alert)}` | {alert.hold} |\n"


def _kafka_row(name: str, definition: Definition) -> str:
    return _cells(name, f"`{exposed(definition)}`", _KINDS[type(definition)], definition.healthy) + "\n"


def exposed(definition: Definition) -> str:
    """The name that `/metrics` shows."""
    return f"{definition.name}_total" if isinstance(definition, CounterDefinition) else definition.name


def _section(service: str, found: Iterable[Definition]) -> Iterator[str]:
    yield f"\n## {_title(service)}\n"
    yield "| metric | kind | labels | meaning | healthy | otherwise |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, sorted(found, key=exposed))


def _row(definition: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    return _cells(
        f"`{exposed(definition)}`", _KINDS[type(definition)], labels, definition.help, definition.healthy, definition.otherwise
    )


def _cells(*columns: str) -> str:
    return f"| {' | '.join(columns)} |".replace("  |", " |")


_KINDS: Final[dict[type[Definition], str]] = {
    CounterDefinition: "counter",
    GaugeDefinition: "gauge",
    HistogramDefinition: "histogram",
}


def process_metrics() -> dict[str, tuple[str, tuple[str, ...], str]]:
    """Kind, label names and HELP text of what prometheus_client measures of a process, by name."""
    found = {}
    for family in Metrics("any", process=True).registry.collect():
        if family.name != "target":
            labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
            found[family.name] = (family.type, tuple(labels), family.documentation)
    return found


def _process_rows() -> Iterator[str]:
    for name, (kind, labels, text) in sorted(process_metrics().items()):
        if name in PROCESS:
            yield _row(PROCESS[name])
        else:
            shown = f"{name}_total" if kind == "counter" else name
            yield _cells(f"`{shown}`", kind, ", ".join(f"`{label}`" for label in labels), text, FROM_LIBRARY[name], "")


def _title(service: str) -> str:
    return service.capitalize().replace("_", " ")


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "tests.docs.metrics_page"))
