"""Debian's Prometheus for a test: targets, rules, and what it answers to queries."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml

from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import require

INTERVAL: Final = "1s"
"""Of scrapes and of rules."""

ASK_EVERY_S: Final = 0.2
"""What it answers changes once in an interval. A question costs it, and the one who asks, as much as a scrape."""

Series = Mapping[str, str]
"""The labels of a series."""


class Prometheus:
    """Use as a context manager. `targets`: host and port of each, by job."""

    def __init__(self, folder: Path, targets: Mapping[str, Sequence[str]], rules: str) -> None:
        require("prometheus")
        self._folder = folder
        self._reservation = reserve_ports(1)
        self.address = f"127.0.0.1:{self._reservation.first}"
        jobs = [{"job_name": name, "static_configs": [{"targets": list(addresses)}]} for name, addresses in targets.items()]
        settings = {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL}
        configuration = {"global": settings, "rule_files": ["rules.yaml"], "scrape_configs": jobs}
        folder.mkdir(parents=True)
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")

    def __enter__(self) -> "Prometheus":
        command = [
            "prometheus",
            "--config.file=prometheus.yaml",
            "--storage.tsdb.path=data",
            f"--web.listen-address={self.address}",
            "--enable-feature=exemplar-storage",
            "--log.level=warn",
        ]
        with open(self._folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        eventually(self._is_ready)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reservation.release()

    def query(self, expression: str) -> list[tuple[Series, float]]:
        """The series now, and the value of each."""
        found = self._ask("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def query_range(self, expression: str, start: float, end: float, step_s: float = 0.5) -> list[tuple[Series, list[float]]]:
        """The series between two moments (seconds since the epoch), and the moments at which each has a value."""
        found = self._ask("query_range", query=expression, start=start, end=end, step=step_s)["result"]
        return [(each["metric"], [moment for moment, _ in each["values"]]) for each in found]

    def label_values(self, label: str, metric: str) -> list[str]:
        values: list[str] = self._ask(f"label/{label}/values", **{"match[]": metric})
        return values

    def firing(self) -> set[str]:
        """The names of alerts that fire now."""
        return {labels["alertname"] for labels, _ in self.query('ALERTS{alertstate="firing"}')}

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def _ask(self, path: str, **parameters: object) -> Any:
        data = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{data}", timeout=60) as answer:
            return json.loads(answer.read())["data"]
