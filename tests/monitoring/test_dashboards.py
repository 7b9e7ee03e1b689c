"""Dashboards are what their descriptions make, ask for what exists, and are what Grafana's schema knows."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as schema

from tests.monitoring.alerts import ALERTS, expression_of
from tests.monitoring.dashboard_json import dashboard_json, queries_of
from tests.monitoring.descriptions import DASHBOARDS
from tests.monitoring.monitoring_files import files, stray_files
from tests.monitoring.panels import COLUMNS, Dashboard
from tests.monitoring.selectors import known, metrics_of, narrowed, of_processes

Json = dict[str, Any]
everyone = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)


def test_the_files_are_what_the_descriptions_make() -> None:
    stale = [path.name for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text()]
    assert (stale, stray_files()) == ([], []), "run python -m tests.monitoring.monitoring_files"


@everyone
def test_each_key_is_one_of_grafanas_schema(dashboard: Dashboard) -> None:
    """Grafana's own classes read the file, and write it again: a key that they do not know would be lost."""
    register_default_plugins()
    given = dashboard_json(dashboard)
    read = schema.Dashboard.from_json(json.loads(json.dumps(given)))
    assert _lost(given, json.loads(json.dumps(read, cls=JSONEncoder))) == []


def _lost(given: Any, read: Any, at: str = "") -> list[str]:
    """Paths to what differs, where `read` may have more keys."""
    if isinstance(given, dict) and isinstance(read, dict):
        missing = [f"{at}.{key}" for key in given if key not in read and given[key] is not None]
        return missing + [each for key in given if key in read for each in _lost(given[key], read[key], f"{at}.{key}")]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [each for i, pair in enumerate(zip(given, read, strict=True)) for each in _lost(*pair, f"{at}[{i}]")]
    return [] if given == read else [f"{at}: {given!r} is {read!r}"]


@everyone
def test_each_query_asks_for_metrics_that_exist(dashboard: Dashboard) -> None:
    for title, expression in queries_of(dashboard):
        asked = set(metrics_of(expression))
        assert asked, title
        assert asked - known().keys() - of_processes() == set(), title


@everyone
def test_panels_fill_each_line_of_the_grid(dashboard: Dashboard) -> None:
    panels = dashboard_json(dashboard)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = Counter(cell for panel in panels for cell in _cells(panel["gridPos"]))
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    assert taken == Counter(itertools.product(range(COLUMNS), range(height)))


def _cells(place: dict[str, int]) -> Iterable[tuple[int, int]]:
    return itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))


@everyone
def test_each_panel_says_what_it_means(dashboard: Dashboard) -> None:
    for panel in dashboard_json(dashboard)["panels"]:
        asked = {name for target in panel.get("targets", ()) for name in metrics_of(target.get("expr", ""))}
        assert panel["type"] == "row" or panel["description"] or asked <= of_processes(), panel["title"]


def test_titles_are_told_apart_within_a_row() -> None:
    twice = [
        f"{dashboard.name}: {row.title}"
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        if len({panel.title for panel in row.panels}) < len(row.panels)
    ]
    assert twice == []


def test_what_an_alert_asks_for_is_on_a_dashboard() -> None:
    shown = _definitions(expression for dashboard in DASHBOARDS for _, expression in queries_of(dashboard))
    assert _definitions(expression_of(alert) for alert in ALERTS) - shown == set()


def _definitions(expressions: Iterable[str]) -> set[str]:
    """Of the metrics in expressions: a histogram's parts are one."""
    names = {name for expression in expressions for name in metrics_of(expression)}
    return {known()[name].name if name in known() else name for name in names}


def test_a_latency_panel_leads_to_traces() -> None:
    with_exemplars = {
        dashboard.name
        for dashboard in DASHBOARDS
        for panel in dashboard_json(dashboard)["panels"]
        if any(target.get("exemplar") for target in panel.get("targets", ()))
    }
    assert with_exemplars >= {"gateway", "storage", "traces"}


def test_labels_of_the_viewers_choice_are_added_to_each_metric_that_has_them() -> None:
    assert narrowed("sum by (api) (rate(penstock_gateway_requests_total[5m]))", ("api",)) == (
        'sum by (api) (rate(penstock_gateway_requests_total{job=~"$job", api=~"$api"}[5m]))'
    )
    assert narrowed('penstock_process_memory_bytes{kind="own"} > up', ("topic", "instance")) == (
        'penstock_process_memory_bytes{job=~"$job", instance=~"$instance", kind="own"} > up{job=~"$job", instance=~"$instance"}'
    )
