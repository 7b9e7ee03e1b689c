"""One run: a job, a kill, runs until it ends well, and the check of what came out."""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.chaos.job_runs import Kill, KilledJob
from tests.pipeline.chaos.kinds import KINDS, Environment


@dataclass(frozen=True)
class PlannedRun:
    kind: str
    kill: Kill


def planned_runs(kinds: Sequence[str], count: int, seed: int) -> Iterator[PlannedRun]:
    """Every kill of every kind comes once before one is repeated, in an order that the seed decides."""
    order = random.Random(seed)
    everything = [PlannedRun(kind, kill) for kind in kinds for kill in KINDS[kind].kills]
    made = 0
    while made < count:
        order.shuffle(everything)
        for run in everything[: count - made]:
            made += 1
            yield run


def carry_out(run: PlannedRun, bootstrap: str, number: int, master: str = "local[2,4]") -> str:
    """Raises AssertionError unless the output is exact. Returns one line that says what was done."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as folder:
        name = f"chaos-{run.kind}-{number}-{time.time_ns() // 1_000_000}"
        prepared = KINDS[run.kind].prepare(Environment(bootstrap, Path(folder), name, master))
        job = KilledJob(Path(folder), prepared.job_file)
        job.run_to_the_end(run.kill)
        prepared.check()
    return f"{run.kind}: {run.kill}: exact after {job.runs} runs, {time.monotonic() - started:.0f} s"
