"""Alerts and recorded series as a rule file of Prometheus."""

from collections.abc import Mapping
from typing import Any

import yaml

from tests.monitoring.alerts import ALERTS, LIMITS, RECORDINGS, Alert, Recording, expression_of, runbook

TOP = "# Made by `python -m tests.monitoring.monitoring_files` from tests/monitoring/alerts.py; do not edit.\n"


def rules_yaml(limits: Mapping[str, str] = LIMITS, hold: str | None = None, group_interval: str | None = None) -> str:
    """`hold`: for tests, how long every expression must hold."""
    interval = {"interval": group_interval} if group_interval else {}
    groups = [
        {"name": "penstock-recordings", **interval, "rules": [_recorded(each, limits) for each in RECORDINGS]},
        {"name": "penstock-alerts", **interval, "rules": [_alerting(each, limits, hold) for each in ALERTS]},
    ]
    return TOP + yaml.safe_dump({"groups": groups}, sort_keys=False, width=140, allow_unicode=True)


def _recorded(each: Recording, limits: Mapping[str, str]) -> dict[str, Any]:
    return {"record": each.name, "expr": expression_of(each, limits)}


def _alerting(each: Alert, limits: Mapping[str, str], hold: str | None) -> dict[str, Any]:
    return {
        "alert": each.name,
        "expr": expression_of(each, limits),
        "for": hold or each.hold,
        "labels": {"severity": each.severity},
        "annotations": {"summary": each.summary, "runbook_url": runbook(each)},
    }
