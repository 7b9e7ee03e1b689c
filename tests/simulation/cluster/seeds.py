"""Many seeds of the whole cluster, in as many processes as there are cores."""

import os
from collections.abc import Iterable, Iterator

from tests.simulation.budget import in_time
from tests.simulation.cluster.run import FAULTY_S, ClusterRun, Report
from tests.simulation.process_pool import process_pool


def run_one(seed: int, *, verbose: bool = False, faulty_s: float = FAULTY_S, until_caught: bool = False) -> Report:
    """`verbose`: the story has also what the services log of their normal work. `until_caught`: the first violation ends it."""
    run = ClusterRun(seed, verbose=verbose, faulty_s=faulty_s)
    try:
        return run.run(until_caught=until_caught)
    finally:
        run.discard()


def run_alone(seed: int) -> Report:
    """The report of a run in a process that is forked for it and ends with it: nobody takes apart what half-ran.

    Call it in a process of a pool, since one with other threads forks none.
    """
    with process_pool(1) as pool:
        return pool.submit(_run_and_keep, seed).result()


_kept: list[ClusterRun] = []
"""The run of a process that ends with it: nothing half-run may end before."""


def _run_and_keep(seed: int) -> Report:
    run = ClusterRun(seed)
    _kept.append(run)
    return run.run()


def run_many(seeds: Iterable[int], *, processes: int | None = None, seconds: float | None = None) -> Iterator[Report]:
    """The reports in the order of the seeds, of as many seeds as begin within `seconds`."""
    seeds = list(seeds)
    workers = processes or min(os.cpu_count() or 1, len(seeds))
    with process_pool(workers) as pool:
        yield from in_time(pool, run_alone, seeds, seconds)
