"""Short runs of the whole cluster. `make simulate KIND=cluster` makes long ones, and many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.seed_reports import summary
from tests.simulation.cluster.seeds import run_one

REPOSITORY = Path(__file__).parents[3]
SHORT_S = 25.0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_cluster_keeps_its_promises_through_faults(seed: int) -> None:
    report = run_one(seed, faulty_s=SHORT_S)
    assert report.violations == [], "\n".join(report.story[-40:])
    assert report.operations > 500, summary(report)


def test_two_processes_replay_a_seed_step_by_step() -> None:
    """The hash order differs between the processes: nothing may depend on it."""
    program = f"from tests.simulation.cluster.seeds import run_one; print(run_one(3, faulty_s={SHORT_S}).digest)"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for seed in ("1", "77")
    ]
    first, second = (process.communicate()[0].strip() for process in running)
    assert len(first) == 64
    assert first == second
