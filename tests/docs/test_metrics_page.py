"""The page of metrics is complete, and as the definitions have them."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from libs.telemetry.definitions import Definition, HistogramDefinition
from tests.docs.metrics_page import (
    FROM_LIBRARY,
    PAGE,
    PROCESS,
    ROOT,
    definitions,
    exposed,
    metric_sets,
    page,
    process_metrics,
)

SENTENCE_WORDS_MAX = 25
ALL = [*PROCESS.values(), *(definition for each in definitions().values() for definition in each)]
NO_BASE_UNITS = {"ms", "us", "ns", "sec", "secs", "percent", "minutes", "hours", "days", "kb", "mb", "kib", "mib"}
UNIT_BY_BEGINNING = {"Bytes ": "bytes", "Seconds ": "seconds", "Time ": "seconds", "Age ": "seconds", "Share ": "ratio"}
KAFKAS_NAMES_WITHOUT_UNIT = {
    "kafka_log_log_size",
    "kafka_server_brokertopicmetrics_bytesin",
    "kafka_server_brokertopicmetrics_bytesout",
    "kafka_server_brokertopicmetrics_replicationbytesin",
    "kafka_server_brokertopicmetrics_replicationbytesout",
}
FROM_CLIENT = {"CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily", "Counter", "Gauge", "Histogram", "Summary"}


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.metrics_page"


def test_every_service_has_metrics() -> None:
    assert definitions().keys() == {
        "metadata_store",
        "rpc",
        "traces",
        "controller",
        "gateway",
        "group_coordinator",
        "pipeline",
        "quota_manager",
        "storage",
        "transaction_coordinator",
    }


def test_no_metric_is_defined_twice() -> None:
    assert [name for name, count in Counter(definition.name for definition in ALL).items() if count > 1] == []


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.name)
def test_a_metric_says_what_it_is_in_short_sentences(definition: Definition) -> None:
    assert definition.help.endswith(".")
    assert definition.healthy
    for text in (definition.help, definition.otherwise):
        sentences = re.split(r"(?<=[.:;]) ", text)
        assert [sentence for sentence in sentences if len(sentence.split()) > SENTENCE_WORDS_MAX] == []


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.name)
def test_a_metric_is_named_as_prometheus_asks(definition: Definition) -> None:
    """promlint (tests/compat/clients/test_prometheus.py) has more rules, and needs Go."""
    for name in (definition.name, *definition.labels):
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name), name
    words = definition.name.split("_")
    assert not NO_BASE_UNITS & set(words), "base units are seconds, bytes and ratio"
    assert not definition.name.endswith(("_total", "_count", "_sum", "_bucket")), "Prometheus adds these itself"
    unit = next((unit for beginning, unit in UNIT_BY_BEGINNING.items() if definition.help.startswith(beginning)), None)
    if unit is not None and definition.name not in KAFKAS_NAMES_WITHOUT_UNIT:
        assert words[-1] == unit, f"it is in {unit}"
    if isinstance(definition, HistogramDefinition):
        assert words[-1] == "seconds"


def test_kafkas_names_without_a_unit_are_of_metrics_that_exist() -> None:
    assert {definition.name for definition in ALL} >= KAFKAS_NAMES_WITHOUT_UNIT


def test_every_metric_of_a_process_has_its_healthy_range() -> None:
    assert process_metrics().keys() == PROCESS.keys() | FROM_LIBRARY.keys()


def test_metrics_are_made_from_definitions_only() -> None:
    texts = ((path, path.read_text(encoding="utf-8")) for path in code())
    found = [
        f"{path.relative_to(ROOT)}: {alias.name}"
        for path, text in texts
        if "prometheus_client" in text  # few files, and to parse them all takes a second
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
        for alias in node.names
        if alias.name in FROM_CLIENT
    ]
    assert [each for each in found if not each.startswith("libs/telemetry/definitions.py")] == []


def test_metrics_of_libraries_are_on_the_page() -> None:
    paths = [path for path in code() if path.is_relative_to(ROOT / "libs")]
    found = {exposed(definition) for path in paths for each in metric_sets(path) for definition in each.definitions.values()}
    assert len(found) > 3
    assert [name for name in found if f"\n| `{name}` |" not in page()] == []


def code() -> list[Path]:
    return [path for top in ("libs", "services") for path in sorted((ROOT / top).rglob("*.py"))]
