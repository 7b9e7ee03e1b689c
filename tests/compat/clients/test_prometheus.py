"""Metrics as Prometheus reads them: its own linter finds nothing in what processes serve, and in what they could."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from libs.telemetry.definitions import Definition, HistogramDefinition
from libs.telemetry.durations import Durations
from tests.compat.clients.groups.builds import go_program
from tests.docs.metrics_page import definitions
from tests.support.cluster_harness import LocalCluster

PROMLINT = Path(__file__).parent / "promlint"


@pytest.fixture(scope="module")
def promlint() -> Path:
    return go_program(PROMLINT)


def problems(promlint: Path, text: bytes) -> list[str]:
    done = subprocess.run([promlint], input=text, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


class EveryMetric(Collector):
    """A sample of each definition of the code, with labels."""

    def collect(self) -> Iterator[Metric]:
        for each in definitions().values():
            for definition in each:
                yield _sampled(definition, [f"some {label}" for label in definition.labels])


def _sampled(definition: Definition, labels: list[str]) -> Metric:
    value = Durations() if isinstance(definition, HistogramDefinition) else 1.0
    return definition.family([(labels, value)] if labels else value)


def test_the_linter_finds_nothing_in_any_metric_of_the_code(promlint: Path) -> None:
    registry = CollectorRegistry()
    registry.register(EveryMetric())
    assert problems(promlint, generate_latest(registry)) == []


def test_the_linter_finds_nothing_in_what_processes_serve(promlint: Path, cluster: LocalCluster) -> None:
    scraped = {name: f"{cluster.admin(name, '/metrics')}\n".encode() for name in cluster.names if name != "etcd"}
    assert {name: found for name, text in scraped.items() if (found := problems(promlint, text))} == {}
    assert all(b'penstock_build_info{service="' in text for text in scraped.values())


def test_the_linter_finds_what_prometheus_would_not_have(promlint: Path) -> None:
    bad = b'# TYPE wait_ms gauge\nwait_ms{logDirectory="/"} 1\n'
    assert {problem.partition(": ")[2] for problem in problems(promlint, bad)} == {
        "no help text",
        "metric names should not contain abbreviated units",
        "label names should be written in 'snake_case' not 'camelCase'",
    }
