"""Thousands of seeds of one partition, in as many processes as there are cores, and what is printed of them."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.replication.run import FAULTY_S, Report, run_one

TOGETHER = 50
STORY_LINES = 60


def run_many(seeds: Iterable[int], *, processes: int | None = None) -> Iterator[Report]:
    """In the order of the seeds."""
    seeds = list(seeds)
    workers = processes or min(os.cpu_count() or 1, len(seeds))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_one, seeds, chunksize=TOGETHER)


def run_seeds(first: int, count: int) -> int:
    started = time.monotonic()
    kinds: Counter[str] = Counter()
    failed = produced = acknowledged = elections = 0
    for report in run_many(range(first, first + count)):
        kinds.update(report.kinds)
        produced, acknowledged = produced + report.produced, acknowledged + report.acknowledged
        elections += report.elections
        if report.violations:
            failed += 1
            if failed <= 10:
                tell(run_one(report.seed, tells=True), STORY_LINES)
    seconds = time.monotonic() - started
    print(
        f"{count} component runs in {seconds:.0f} s ({60 * count / seconds:.0f} a minute), {produced} batches, "
        f"{acknowledged} acknowledged by all, {elections} elections, {failed} seeds failed"
    )
    for name, times in sorted(kinds.items()):
        print(f"  {times:8}  {name}")
    return 1 if failed else 0


def replay(seed: int, *, everything: bool) -> int:
    report = run_one(seed, tells=True)
    if everything:
        print("\n".join(report.story))
    if report.violations:
        tell(report, STORY_LINES if not everything else 0)
        return 1
    print(
        f"seed {seed}: {report.produced} batches, {report.elections} elections, {report.faults} faults in {FAULTY_S:.0f} virtual "
        f"seconds, all sound; digest {report.digest}"
    )
    return 0


def tell(report: Report, lines: int) -> None:
    print(f"\ncomponent seed {report.seed}:")
    for violation in report.violations[:10]:
        print(f"  ! {violation}")
    print(f"  replay: make simulate KIND=component SEED={report.seed}, with STORY=1 for all that happened")
    if lines:
        at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
        print("\n".join(f"  | {line}" for line in report.story[max(0, at - lines) : at + 5]))
