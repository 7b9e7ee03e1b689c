"""The page of metrics is complete, and as the definitions have them."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from libs.telemetry.definitions import Definition
from tests.docs.metrics_page import ALERTS, PAGE, PROCESS, ROOT, definitions, exposed, page, process_metrics

SENTENCE_WORDS_MAX = 25
ALL = [definition for each in definitions().values() for definition in each]
FROM_CLIENT = {"CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily", "Counter", "Gauge", "Histogram", "Summary"}


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.docs.metrics_page"


def test_every_service_has_metrics() -> None:
    assert definitions().keys() == {"controller", "gateway", "group_coordinator", "storage"}


def test_no_metric_is_defined_twice() -> None:
    assert [name for name, count in Counter(definition.name for definition in ALL).items() if count > 1] == []


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.name)
def test_a_metric_says_what_it_is_in_short_sentences(definition: Definition) -> None:
    assert definition.help.endswith(".")
    assert definition.healthy
    for text in (definition.help, definition.otherwise):
        sentences = re.split(r"(?<=[.:;]) ", text)
        assert [sentence for sentence in sentences if len(sentence.split()) > SENTENCE_WORDS_MAX] == []


def test_every_metric_of_a_process_has_its_healthy_range() -> None:
    assert process_metrics().keys() == PROCESS.keys()


def test_an_alert_asks_for_metrics_that_exist() -> None:
    names = {exposed(definition) for definition in ALL}
    asked = {name for alert, _ in ALERTS for name in re.findall(r"\b(?:kafka|penstock)_\w+", alert)}
    assert asked - names == set()


def test_metrics_are_made_from_definitions_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {alias.name}"
        for path in code()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
        for alias in node.names
        if alias.name in FROM_CLIENT
    ]
    assert [each for each in found if not each.startswith("libs/telemetry/definitions.py")] == []


def test_every_definition_is_sampled() -> None:
    for path in code():
        tree = ast.parse(path.read_text())
        made = {
            node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id in ("CounterDefinition", "GaugeDefinition", "HistogramDefinition")
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert made - used == set(), path


def code() -> list[Path]:
    return [path for top in ("libs", "services") for path in sorted((ROOT / top).rglob("*.py"))]
