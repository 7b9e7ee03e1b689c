"""One transform job, one topic, one checkpoint: its tasks and its driver are killed at step after step, ten times."""

from pathlib import Path

import pytest

from tests.pipeline.chaos.job_runs import KilledJob
from tests.pipeline.chaos.kinds import CHAIN, CHAIN_BATCHES, CHAIN_MASTER, KINDS, Environment


@pytest.mark.timeout(600)
def test_a_transform_that_is_killed_at_step_after_step_is_exact(bootstrap: str, tmp_path: Path, topic: str) -> None:
    prepared = KINDS["transform"].prepare(Environment(bootstrap, tmp_path, topic, CHAIN_MASTER, CHAIN_BATCHES))
    job = KilledJob(tmp_path, prepared.job_file)
    job.run_to_the_end(*CHAIN)
    assert job.runs == 1 + sum(kill.victim == "driver" for kill in CHAIN), "Spark itself repeats tasks that die"
    prepared.check()
