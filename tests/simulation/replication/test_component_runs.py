"""Short: `make simulate KIND=component` makes thousands of runs."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.replication.mutants import MUTANTS, RARE, seeds_to_catch
from tests.simulation.replication.run import run_one

REPOSITORY = Path(__file__).parents[3]
SEEDS = 300


def test_replicas_keep_their_promises_through_faults() -> None:
    kinds: Counter[str] = Counter()
    acknowledged = elections = 0
    for seed in range(SEEDS):
        report = run_one(seed)
        assert report.violations == [], f"make simulate KIND=component SEED={seed} STORY=1"
        kinds.update(report.kinds)
        acknowledged, elections = acknowledged + report.acknowledged, elections + report.elections
    assert len(kinds) == 12
    assert min(kinds.values()) > SEEDS // 10
    assert acknowledged > 30 * SEEDS
    assert elections > SEEDS


def test_two_processes_replay_a_component_seed_step_by_step() -> None:
    """With another order of hashes in each: nothing may depend on it."""
    program = "from tests.simulation.replication.run import run_one; print([run_one(seed).digest for seed in (1, 2, 3)])"
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    ]
    assert len(digests[0]) > 3 * 64
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in RARE])
def test_a_bug_planted_into_replication_is_caught(name: str) -> None:
    """`make simulate KIND=planted` has those that take more seeds, too."""
    _, report = seeds_to_catch(name, most=500)
    assert report is not None
