"""The chart brings dashboards to Grafana's sidecar and alerts to the Prometheus operator, where values ask for them."""

import json
from urllib.parse import urlsplit

import pytest
import yaml

from tests.deploy.chart.rendering import FULL_NAME, NAMESPACE, RELEASE, of_kind, render
from tests.docs.house_rules import ROOT
from tests.monitoring.alerts import ALERTS, RUNBOOKS
from tests.monitoring.monitoring_files import FOLDER, RULES

DASHBOARDS = ("--set", "metrics.dashboards.enabled=true")
WITH_RULES = ("--set", "metrics.rules.enabled=true")


def test_there_are_neither_dashboards_nor_rules_unless_values_ask_for_them() -> None:
    objects = render()
    assert of_kind(objects, "PrometheusRule") == {}
    assert [name for name in of_kind(objects, "ConfigMap") if "-dashboard-" in name] == []


def test_the_sidecar_finds_each_dashboard_as_the_file_has_it() -> None:
    maps = {name: each for name, each in of_kind(render(DASHBOARDS), "ConfigMap").items() if "-dashboard-" in name}
    assert set(maps) == {f"{FULL_NAME}-dashboard-{path.stem}" for path in FOLDER.glob("*.json")}
    for each in maps.values():
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        ((file, text),) = each["data"].items()
        assert json.loads(text) == json.loads((FOLDER / file.removeprefix("penstock-")).read_text(encoding="utf-8"))


def test_the_operator_gets_the_rules_as_the_file_has_them() -> None:
    (rule,) = of_kind(render(WITH_RULES), "PrometheusRule").values()
    assert rule["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("runbooks", ["", "https://pages.example.net/penstock/"])
def test_an_alert_links_to_the_runbook_where_the_pages_are_kept(runbooks: str) -> None:
    (rule,) = of_kind(render((*WITH_RULES, "--set", f"metrics.rules.runbooks={runbooks}")), "PrometheusRule").values()
    links = {
        each["alert"]: each["annotations"]["runbook_url"]
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    }
    assert links == {alert.name: f"{runbooks}{RUNBOOKS}#{alert.name.lower()}" for alert in ALERTS}
    assert all((ROOT / urlsplit(link).path.removeprefix("/penstock/")).exists() for link in links.values())


@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_all_processes_of_a_release_are_scraped_as_one_job(monitor: str) -> None:
    (found,) = of_kind(render(("--set", f"metrics.{monitor}.enabled=true")), monitor[0].upper() + monitor[1:]).values()
    (endpoint,) = found["spec"].get("podMetricsEndpoints") or found["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": f"{NAMESPACE}/{RELEASE}"}]
