"""Prometheus takes the rules, each alert fires at its series and at no other alert's, and each has a runbook."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from libs.telemetry.definitions import CounterDefinition
from tests.docs.house_rules import ROOT
from tests.monitoring.alerts import ALERTS, LIMITS, RECORDINGS, RUNBOOKS, Alert, expression_of, runbook
from tests.monitoring.monitoring_files import RULES
from tests.monitoring.promtool_cases import promtool_cases
from tests.monitoring.rule_cases import CASES
from tests.monitoring.selectors import known, metrics_of, of_processes
from tests.support.requirements import require

FROM_ZERO: Final = {
    "penstock_storage_held_up_produces_total": "for each follower, when it begins to pull",
    "penstock_pipeline_dead_letters_total": "for each stream, when it begins",
}
"""Counters whose label values are not known in advance, and when each begins at 0."""
SECTIONS = re.findall(r"^### (Penstock\w+)$", (ROOT / RUNBOOKS).read_text(encoding="utf-8"), re.MULTILINE)


def promtool(*arguments: str, folder: Path) -> str:
    require("prometheus")
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_prometheus_takes_the_rules() -> None:
    rules = len(ALERTS) + len(RECORDINGS)
    assert f"SUCCESS: {rules} rules found" in promtool("check", "rules", str(RULES), folder=RULES.parent)


def test_each_alert_fires_at_its_series_after_its_hold_and_no_other_does(tmp_path: Path) -> None:
    """In a healthy cluster, none does."""
    shutil.copy(RULES, tmp_path)
    (tmp_path / "cases.yaml").write_text(promtool_cases(RULES.name), encoding="utf-8")
    promtool("test", "rules", "cases.yaml", folder=tmp_path)


def test_each_alert_has_its_case_and_its_runbook() -> None:
    names = [alert.name for alert in ALERTS]
    assert sorted(CASES) == sorted(set(names)) == sorted(names)
    assert names == SECTIONS, "the sections of the page have the order of the alerts"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_is_a_section_that_a_link_reaches(alert: Alert) -> None:
    page, _, anchor = runbook(alert).partition("#")
    assert f"\n### {alert.name}\n" in (ROOT / page).read_text(encoding="utf-8")
    assert anchor == alert.name.lower(), "as a page of Markdown names its headings"


@pytest.mark.parametrize("rule", [*ALERTS, *RECORDINGS], ids=lambda rule: rule.name)
def test_a_rule_asks_for_metrics_that_exist(rule: Alert) -> None:
    asked = set(metrics_of(expression_of(rule)))
    assert asked
    assert asked - known().keys() - of_processes() == set()


def test_a_rule_on_a_sum_says_which_cluster() -> None:
    """`sum` without `by` would add up all clusters of a Prometheus."""
    whole = [
        rule.name for rule in (*ALERTS, *RECORDINGS) if re.search(r"\b(sum|max|min|count) \(|\b(sum|max)\(", expression_of(rule))
    ]
    assert whole == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_counter_whose_first_event_is_an_alert_begins_at_zero(alert: Alert) -> None:
    """Prometheus sees no increase in a series that begins at 1."""
    for counter in re.findall(r"\b(?:increase|rate)\((\w+)[^)]*\)+ > 0(?![.\d])", expression_of(alert)):
        definition = known()[counter]
        assert isinstance(definition, CounterDefinition)
        assert not definition.labels or definition.from_zero or counter in FROM_ZERO, counter


def test_every_limit_is_used() -> None:
    used = {name for rule in (*ALERTS, *RECORDINGS) for name in re.findall(r"\$(\w+)", rule.expression)}
    assert used == LIMITS.keys()
