"""The cases of `rule_cases.py` as a file for `promtool test rules`."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.monitoring.alerts import ALERTS, Alert, runbook
from tests.monitoring.rule_cases import CASES, HEALTHY, Case, Series

STEP_S: Final = 30
LATER_S: Final = 360
"""How long after its hold an alert is looked for: a rate needs its whole window."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def promtool_cases(rules_file: str) -> str:
    """One test for each alert, and one of a healthy cluster. In each, all other alerts are expected to be silent."""
    tests = [_test("a healthy cluster", HEALTHY, [(3600, {})])]
    for alert in ALERTS:
        case = CASES[alert.name]
        after = seconds(alert.hold) + LATER_S
        moments: list[tuple[int, dict[str, Any]]] = [(after, {alert.name: _expected(alert, case)})]
        if seconds(alert.hold) > STEP_S:
            moments.insert(0, (seconds(alert.hold) - STEP_S, {}))
        tests.append(_test(alert.name, _series(case), moments))
    return yaml.safe_dump(
        {"rule_files": [rules_file], "evaluation_interval": f"{STEP_S}s", "tests": tests}, sort_keys=False, width=160
    )


def seconds(hold: str) -> int:
    """Of a duration in Prometheus' form, with one unit."""
    return int(hold[:-1]) * _UNITS[hold[-1]]


def _series(case: Case) -> Series:
    replaced = {each.partition("{")[0] for each in case.series} | set(case.without)
    return {each: values for each, values in HEALTHY.items() if each.partition("{")[0] not in replaced} | dict(case.series)


def _test(name: str, series: Series, moments: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": f"{STEP_S}s",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": list(_moments(moments)),
    }


def _moments(moments: list[tuple[int, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for second, firing in moments:
        for alert in ALERTS:
            expected = [firing[alert.name]] if alert.name in firing else []
            yield {"eval_time": f"{second}s", "alertname": alert.name, "exp_alerts": expected}


def _expected(alert: Alert, case: Case) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": alert.severity, **case.labels},
        "exp_annotations": {"summary": case.summary, "runbook_url": runbook(alert)},
    }
