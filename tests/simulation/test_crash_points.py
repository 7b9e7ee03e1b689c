"""Power cuts at every operation boundary of random workloads: the recovered disk is compared with the model."""

import os
import subprocess
import sys

import pytest

from tests.simulation.seeds import run_many, run_one
from tests.simulation.sometimes import POINTS, Sometimes

CRASH_POINTS = 20_000
SEEDS = (1, 2, 4, 7, 10, 11, 13, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 30, 31, 32, 33, 54, 62, 122)
"""Of many, those that take the fewest seconds for each crash point, and together every one of `POINTS`."""


@pytest.mark.timeout(600)
def test_nothing_durable_is_lost_and_nothing_foreign_is_found_at_any_crash_point() -> None:
    points, sometimes = 0, Sometimes()
    for outcome in run_many(SEEDS):
        assert not outcome.failure, "\n".join([outcome.failure, *outcome.story[-60:], f"make simulate SEED={outcome.seed}"])
        points += outcome.report.crash_points
        sometimes.counts += outcome.report.sometimes.counts
    assert points >= CRASH_POINTS
    assert not sometimes.missing(POINTS)


def test_a_seed_replays_exactly_in_another_process() -> None:
    here = run_one(3, steps=8)
    program = "from tests.simulation.seeds import run_one; print(run_one(3, steps=8).report.digest)"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, encoding="utf-8", check=True
        )
        assert there.stdout.strip() == here.report.digest
