"""Each alert fires in its situation and in no other, and each expression of dashboards and rules has data, in a real Prometheus.

An alert that no situation here brings about has its case in `tests/monitoring/rule_cases.py` alone.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.monitoring.alerts import ALERTS, RECORDINGS
from tests.monitoring.dashboard_json import dashboard_json, queries_of
from tests.monitoring.descriptions import DASHBOARDS
from tests.monitoring.panels import RATE
from tests.support.requirements import require
from tests.system.monitoring.situations import SITUATIONS, Stage
from tests.system.monitoring.stage import staged

ONLY_BY_PROMTOOL: Final = {
    "PenstockProcessBusy",
    "PenstockVersionsDiffer",
    "PenstockFollowerFailed",
    "PenstockDiskStalled",
    "PenstockSyncsSlow",
    "PenstockLogsNotCleaned",
    "PenstockCompactionLate",
    "PenstockDecisionsUnwritable",
    "PenstockInternalErrors",
    "PenstockCertificateExpires",
    "PenstockCertificateExpiresSoon",
    "PenstockEtcdCertificateExpires",
    "PenstockEtcdCertificateExpiresSoon",
    "PenstockEtcdServerCertificateExpires",
    "PenstockEtcdServerCertificateExpiresSoon",
    "PenstockPeerCertificateExpires",
    "PenstockPeerCertificateExpiresSoon",
}


@pytest.fixture(scope="module")
def begun() -> float:
    return time.time()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, begun: float) -> Iterator[Stage]:
    require("prometheus", "root")
    folder: Path = tmp_path_factory.mktemp("monitoring")
    with staged(folder) as made:
        yield made


def test_each_alert_fires_in_its_situation_and_in_no_other(stage: Stage) -> None:
    for situation in SITUATIONS:
        situation(stage)
        assert stage.watch.problems == []
    fired = set().union(*stage.watch.fired.values())
    assert {alert.name for alert in ALERTS} - fired == ONLY_BY_PROMTOOL


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_each_query_of_a_dashboard_has_data(stage: Stage, begun: float, dashboard: Any) -> None:
    assert stage.watch.fired, "the situations were played"
    chosen = {"$job": "penstock|pipeline", RATE: "4s", **{f"${label}": ".*" for label in dashboard.variables}}
    empty = []
    for title, expression in queries_of(dashboard):
        for name, value in chosen.items():
            expression = expression.replace(name, value)
        if not stage.prometheus.query_range(expression, begun, time.time(), step_s=2.0):
            empty.append(f"{title}: {expression}")
    assert empty == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_each_variable_of_a_dashboard_has_values(stage: Stage, dashboard: Any) -> None:
    for variable in dashboard_json(dashboard)["templating"]["list"]:
        if variable["type"] == "query":
            metric, _, label = variable["query"]["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            assert stage.prometheus.label_values(label, metric.replace("$job", "penstock")), variable["name"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_each_recorded_series_has_data(stage: Stage, begun: float, recording: Any) -> None:
    assert stage.prometheus.query_range(recording.name, begun, time.time())
