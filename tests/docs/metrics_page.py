"""Writes docs/operate/metrics.md from the definitions of metrics: what they mean, what is healthy, and what to do.

`python -m tests.docs.metrics_page [--check]`
"""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from libs.cluster.measured_store import MeasuredStore
from libs.telemetry.definitions import CounterDefinition, Definition, GaugeDefinition, HistogramDefinition, MetricSet
from libs.telemetry.metrics import Metrics
from libs.telemetry.process_memory import ProcessMemory
from services.gateway.protocol_docs.protocol_page import write_page

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

Labels have bounds. `PENSTOCK_TOPIC_SERIES_MAX`, `PENSTOCK_PARTITION_SERIES_MAX` and `PENSTOCK_LAG_SERIES_MAX` limit how many
topics, partitions and partitions of groups have time series of their own. Other topics are counted together, as the topic
`(other)`: the sum over `topic` is that of the node. `penstock_storage_topics_without_series`,
`penstock_storage_partitions_without_series` and `penstock_groups_lag_series_left_out` tell how many have none. Clients and
members are never labels.

## What to watch

Alerts on these few find most trouble:

| alert when | for | service |
|---|--:|---|
"""

ALERTS: Final = (
    ("sum(kafka_controller_kafkacontroller_activecontrollercount) != 1", "30 s"),
    ("max(kafka_controller_kafkacontroller_offlinepartitionscount) > 0", "30 s"),
    ("sum(kafka_server_replicamanager_underminisrpartitioncount) > 0", "30 s"),
    ("sum(kafka_server_replicamanager_underreplicatedpartitions) > 0", "10 min"),
    ("kafka_log_logmanager_offlinelogdirectorycount > 0", "0 s"),
    ("penstock_storage_log_directory_free_bytes / penstock_storage_log_directory_size_bytes < 0.1", "5 min"),
    ("penstock_storage_stalled_directories > 0", "30 s"),
    ("increase(kafka_controller_controllerstats_uncleanleaderelections_total[5m]) > 0", "0 s"),
    ("max(penstock_unowned_shards) > 0", "1 min"),
    ("sum(penstock_quota_manager_elected) != 1", "30 s"),
    ("sum(kafka_server_replicamanager_partitionswithlatetransactionscount) > 0", "0 s"),
)
"""Prometheus expressions, and for how long each must hold."""

STORE: Final = "metadata_store"
"""The title of what every process of a cluster measures of the store."""

PROCESS: Final = {
    "penstock_build_info": "1; one version in all processes, but during an upgrade",
    "python_gc_objects_collected": "any",
    "python_gc_objects_uncollectable": "0",
    "python_gc_collections": "any",
    "python_info": "1",
    "process_virtual_memory_bytes": "any",
    "process_resident_memory_bytes": "any: it counts pages of files, which the kernel may take back",
    **{definition.name: definition.healthy for definition in ProcessMemory.definitions.values()},
    "process_start_time_seconds": "does not change; a new value is a restart, and the old process's log tells why",
    "process_cpu_seconds": "its rate stays below 1, which is one core; near 1, add a process of that kind",
    "process_open_fds": "below 80 % of `process_max_fds`; above, raise `ulimit -n` or find what opens so many",
    "process_max_fds": "at least 65,536 for storage nodes with many partitions",
}
"""The healthy range of what prometheus_client itself measures of a process."""


def definitions() -> dict[str, list[Definition]]:
    """By service: the metrics that its classes declare, in the order of the files."""
    found: dict[str, list[Definition]] = {STORE: list(MeasuredStore.definitions.values())}
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
    of_service = {definition.name: service for service, each in services.items() for definition in each}
    return "".join(
        [
            _TOP,
            *(f"| `{alert}` | {wait} | {_title(_service_of(alert, of_service))} |\n" for alert, wait in ALERTS),
            *(line + "\n" for service, each in services.items() for line in _section(service, each)),
            "\n## Every process\n\n| metric | kind | labels | meaning | healthy |\n|---|---|---|---|---|\n",
            *(line + "\n" for line in _process_rows()),
        ]
    )


def _service_of(alert: str, of_service: dict[str, str]) -> str:
    return next(service for name, service in of_service.items() if name in alert)


def exposed(definition: Definition) -> str:
    """The name that `/metrics` shows."""
    return f"{definition.name}_total" if isinstance(definition, CounterDefinition) else definition.name


def _section(service: str, found: Iterable[Definition]) -> Iterator[str]:
    yield f"\n## {_title(service)}\n"
    yield "| metric | kind | labels | meaning | healthy | otherwise |"
    yield "|---|---|---|---|---|---|"
    for definition in sorted(found, key=exposed):
        labels = ", ".join(f"`{label}`" for label in definition.labels)
        columns = (
            f"`{exposed(definition)}`",
            _KINDS[type(definition)],
            labels,
            definition.help,
            definition.healthy,
            definition.otherwise,
        )
        yield f"| {' | '.join(columns)} |".replace("  |", " |")


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
        shown = f"{name}_total" if kind == "counter" else name
        columns = (f"`{shown}`", kind, ", ".join(f"`{label}`" for label in labels), text, PROCESS[name])
        yield f"| {' | '.join(columns)} |".replace("  |", " |")


def _title(service: str) -> str:
    return service.capitalize().replace("_", " ")


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "tests.docs.metrics_page"))
