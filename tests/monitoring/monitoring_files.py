"""Writes charts/penstock/dashboards/*.json and charts/penstock/rules/penstock.yaml. The chart and Compose take them from there.

`python -m tests.monitoring.monitoring_files [--check]`
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from services.gateway.protocol_docs.protocol_page import write_page
from tests.docs.chart_page import CHART
from tests.monitoring.dashboard_json import dashboard_json
from tests.monitoring.descriptions import DASHBOARDS
from tests.monitoring.panels import Dashboard
from tests.monitoring.rules_yaml import rules_yaml

FOLDER: Final = CHART / "dashboards"
RULES: Final = CHART / "rules" / "penstock.yaml"


def files() -> Iterator[tuple[Path, Callable[[], str]]]:
    yield RULES, rules_yaml
    for dashboard in DASHBOARDS:
        yield FOLDER / f"{dashboard.name}.json", lambda dashboard=dashboard: text_of(dashboard)  # type: ignore[misc]


def text_of(dashboard: Dashboard) -> str:
    return json.dumps(dashboard_json(dashboard), indent=1, ensure_ascii=False) + "\n"


def stray_files() -> list[Path]:
    """Dashboards in the folder that no description makes."""
    return sorted(set(FOLDER.glob("*")) - {path for path, _ in files()})


def main() -> int:
    failed = [write_page(path, text, "tests.monitoring.monitoring_files") for path, text in files()]
    for path in (strays := stray_files()):
        print(f"{path} is made by no description: remove it")
    return int(any(failed) or bool(strays))


if __name__ == "__main__":
    sys.exit(main())
