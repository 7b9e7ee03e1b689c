"""`make simulate KIND=failed`: each seed that ever found something is run again."""

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.failed_seeds import failed_seeds, print_failed
from tests.simulation.hunt import properties
from tests.simulation.hunt.seed_runs import violation_of


def replay_failed(seeds: Mapping[str, Mapping[int, str]] | None = None) -> int:
    """`seeds`: by kind, each seed and what it showed once. 1: one fails again."""
    jobs = [
        (kind, seed, story)
        for kind, found in (failed_seeds() if seeds is None else seeds).items()
        for seed, story in found.items()
    ]
    workers = min(os.cpu_count() or 1, max(1, len(jobs)))
    failed: dict[str, dict[int, str]] = {}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for (kind, seed, story), violation in zip(jobs, pool.map(_replay, jobs), strict=True):
            print(f"{kind} seed {seed}: {'FAILED' if violation else 'sound'}; once: {story}", flush=True)
            if violation:
                failed.setdefault(kind, {})[seed] = violation
    print(f"{len(jobs)} seeds that failed once, {sum(map(len, failed.values()))} fail")
    for kind, found in failed.items():
        print_failed(kind, found)
    return 1 if failed else 0


def _replay(job: tuple[str, int, str]) -> str:
    kind, seed, story = job
    return properties.replay(seed, story) if kind == "properties" else violation_of(kind, seed)
