"""Speculation: a task's second attempt begins while the first one is at work, and their steps meet in each way that matters."""

from pathlib import Path

import pytest

from tests.pipeline.chaos.job_runs import Kill, KilledJob
from tests.pipeline.chaos.kinds import KINDS, Environment
from tests.pipeline.chaos.standalone import StandaloneMaster

MEETINGS = (
    # The first has written its rows; the second fences it, and commits. The first finds the second's entry.
    (Kill("hold", "before commit"), Kill("overtake", "after commit")),
    # The first begins when the second has committed.
    (Kill("hold", "before InitProducerId"), Kill("overtake", "after commit")),
    # The first has committed, and Spark does not know it yet. The second finds its entry.
    (Kill("hold", "after commit"),),
    # The first is fenced in the middle, and both go on.
    (Kill("hold", "after produce"), Kill("release", "after InitProducerId")),
)
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
    "spark.task.maxFailures": "1",
}
"""No attempt may fail: Spark kills the one that is not needed, and that is no failure."""


@pytest.mark.timeout(1500)
def test_two_attempts_of_a_task_at_once_leave_each_record_once(bootstrap: str, tmp_path: Path, topic: str) -> None:
    with StandaloneMaster(tmp_path) as standalone:
        settings = {**standalone.config(tmp_path), **SPECULATION}
        around = Environment(bootstrap, tmp_path, topic, standalone.url, len(MEETINGS), settings)
        prepared = KINDS["transform"].prepare(around)
        job = KilledJob(tmp_path, prepared.job_file)
        job.run_to_the_end(*(kill for meeting in MEETINGS for kill in meeting))
        prepared.check()
    assert job.runs == 1
