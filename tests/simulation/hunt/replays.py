"""`make simulate KIND=failed`: each seed that ever found something is run again.

Those of whole clusters are also CI's sample of these. So they are held to what a sample of such runs must have come by.
"""

import os
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tests.simulation.cluster import seeds as cluster
from tests.simulation.cluster.seed_reports import print_paths
from tests.simulation.failed_seeds import failed_seeds, print_failed
from tests.simulation.hunt import properties
from tests.simulation.hunt.seed_runs import raised, violation_of
from tests.simulation.process_pool import process_pool


class Replayed(NamedTuple):
    violation: str
    """"": the run was sound."""
    paths: Mapping[str, int] = {}
    """By name, how often a run of a whole cluster took each path that is rare."""


def replay_failed(seeds: Mapping[str, Mapping[int, str]] | None = None) -> int:
    """`seeds`: by kind, each seed and what it showed once. 1: one fails again, or those of clusters never took some rare path."""
    jobs = [
        (kind, seed, story)
        for kind, found in (failed_seeds() if seeds is None else seeds).items()
        for seed, story in found.items()
    ]
    workers = min(os.cpu_count() or 1, max(1, len(jobs)))
    failed: dict[str, dict[int, str]] = {}
    paths: Counter[str] = Counter()
    with process_pool(workers) as pool:
        for (kind, seed, story), (violation, taken) in zip(jobs, pool.map(_replay, jobs), strict=True):
            paths.update(taken)
            print(f"{kind} seed {seed}: {'FAILED' if violation else 'sound'}; once: {story}", flush=True)
            if violation:
                failed.setdefault(kind, {})[seed] = violation
    never = print_paths(paths, sum(kind == "cluster" for kind, _, _ in jobs)) if paths else []
    print(f"{len(jobs)} seeds that failed once, {sum(map(len, failed.values()))} fail")
    for kind, found in failed.items():
        print_failed(kind, found)
    return 1 if failed or never else 0


def _replay(job: tuple[str, int, str]) -> Replayed:
    kind, seed, story = job
    if kind == "properties":
        return Replayed(properties.replay(seed, story))
    if kind != "cluster":
        return Replayed(violation_of(kind, seed))
    try:
        report = cluster.run_alone(seed)
    except Exception as error:
        return Replayed(raised(error))
    return Replayed(report.violations[0] if report.violations else "", report.sometimes)
