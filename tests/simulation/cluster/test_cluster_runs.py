"""Short runs of the whole cluster. `make simulate KIND=cluster` makes long ones, and many."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.cluster.run import Report
from tests.simulation.cluster.seed_reports import summary
from tests.simulation.cluster.seeds import run_one

REPOSITORY = Path(__file__).parents[3]
SHORT_S = 25.0
HASH_SEEDS = ("1", "77")
SEEDS = 1, 2
"""One with processes for all services, and one with nodes (`tests/support/transport_halves.py`)."""


@cache
def report_of(seed: int) -> Report:
    """Of a run in this process."""
    return run_one(seed, faulty_s=SHORT_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_through_faults(seed: int) -> None:
    report = report_of(seed)
    assert report.violations == [], "\n".join(report.story[-40:])
    assert report.operations > 500, summary(report)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_process_replays_a_seed_step_by_step(seed: int) -> None:
    """The hash order differs between the processes, and this one has run other tests before: nothing may depend on either."""
    other = next(seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
    program = f"from tests.simulation.cluster.seeds import run_one; print(run_one({seed}, faulty_s={SHORT_S}).digest)"
    there = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": other},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout.strip()
    assert len(there) == 64
    assert there == report_of(seed).digest
