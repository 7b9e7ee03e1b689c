"""Thousands of seeds of one group, in as many processes as there are cores, and what is printed of them."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.groups.run import Report, run_one

TOGETHER = 50
STORY_LINES = 80
LEAST_ASKED = 100
"""Requests of a run, on average: runs in which nothing happens prove nothing."""


def run_many(seeds: Iterable[int], *, processes: int | None = None) -> Iterator[Report]:
    """In the order of the seeds."""
    seeds = list(seeds)
    workers = processes or min(os.cpu_count() or 1, len(seeds))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_one, seeds, chunksize=TOGETHER)


def run_seeds(first: int, count: int) -> int:
    started = time.monotonic()
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    failed = 0
    for report in run_many(range(first, first + count)):
        faults.update(report.faults)
        totals.update(
            {
                report.kind: 1,
                "asked": report.asked,
                "acknowledged": report.acknowledged,
                "fetched": report.fetched,
                "generations": report.generations,
                "owners": report.owners,
                "converted": report.converted,
            }
        )
        if report.violations:
            failed += 1
            if failed <= 10:
                tell(run_one(report.seed, tells=True), STORY_LINES)
    seconds = time.monotonic() - started
    print(
        f"{count} group runs in {seconds:.0f} s ({60 * count / seconds:.0f} a minute), {totals['asked']} requests, "
        f"{totals['acknowledged']} offsets acknowledged, {totals['fetched']} fetches, {totals['generations']} generations, "
        f"{totals['converted']} changes of protocol, {totals['owners']} owners, {failed} seeds failed"
    )
    for name, times in sorted(faults.items()):
        print(f"  {times:8}  {name}")
    idle = totals["asked"] < LEAST_ASKED * count
    if idle:
        print(f"too little happened: fewer than {LEAST_ASKED} requests in a run")
    return 1 if failed or idle else 0


def replay(seed: int, *, everything: bool) -> int:
    report = run_one(seed, tells=True)
    if everything:
        print("\n".join(report.story))
    if report.violations:
        tell(report, STORY_LINES if not everything else 0)
        return 1
    print(
        f"seed {seed}: a {report.kind} group, {report.asked} requests, {report.generations} generations, {report.owners} owners, "
        f"{report.faults.total()} faults, all sound; digest {report.digest}"
    )
    return 0


def tell(report: Report, lines: int) -> None:
    print(f"\ngroup seed {report.seed}, {report.kind}:")
    for violation in report.violations[:10]:
        print(f"  ! {violation}")
    print(f"  replay: make simulate KIND=groups SEED={report.seed}, with STORY=1 for all that happened")
    if lines:
        at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
        print("\n".join(f"  | {line[:400]}" for line in report.story[max(0, at - lines) : at + 15]))
