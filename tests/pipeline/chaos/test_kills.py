"""Nine runs of `make pipeline-chaos`, and a replay that is killed ten times."""

from pathlib import Path

import pytest

from tests.pipeline.chaos.job_runs import Kill, KilledJob
from tests.pipeline.chaos.kinds import CHAIN, CHAIN_BATCHES, CHAIN_MASTER, KINDS, Environment
from tests.pipeline.chaos.runs import PlannedRun, carry_out
from tests.support.cluster_harness import LocalCluster

RUNS = (
    PlannedRun("transform", Kill("task", "after InitProducerId")),
    PlannedRun("transform", Kill("task", "after commit")),
    PlannedRun("transform", Kill("driver", "after produce", 1)),
    PlannedRun("transform", Kill("driver", "after tasks", 1)),
    PlannedRun("transform", Kill("driver", "before the epoch", 1)),
    PlannedRun("replay", Kill("task", "before commit")),
    PlannedRun("replay", Kill("driver", "before tasks", 1)),
    PlannedRun("replay", Kill("driver", "after commit", 1)),
    PlannedRun("replay", Kill("driver", "after tasks", 1)),
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.kind}: {run.kill}")
def test_what_comes_out_is_exact_whoever_is_killed(cluster: LocalCluster, run: PlannedRun) -> None:
    carry_out(run, cluster.bootstrap, RUNS.index(run))


@pytest.mark.timeout(900)
def test_a_replay_that_is_killed_at_step_after_step_is_exact(cluster: LocalCluster, tmp_path: Path, topic: str) -> None:
    prepared = KINDS["replay"].prepare(Environment(cluster.bootstrap, tmp_path, topic, CHAIN_MASTER, CHAIN_BATCHES))
    KilledJob(tmp_path, prepared.job_file).run_to_the_end(*CHAIN)
    prepared.check()
