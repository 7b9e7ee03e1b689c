"""The output of `make simulate KIND=cluster`."""

import time
from collections import Counter
from collections.abc import Mapping

from tests.simulation.budget import too_few
from tests.simulation.cluster.run import Report
from tests.simulation.cluster.seeds import run_many, run_one
from tests.simulation.failed_seeds import print_failed

STORY_LINES = 80
PROVE_ALL = 6
"""So many seeds must have taken all the paths that are rare in each."""


def replay(seed: int, *, everything: bool) -> int:
    report = run_one(seed, verbose=everything)
    if everything:
        print("\n".join(report.story))
    if report.violations:
        print_failure(report, STORY_LINES if not everything else 0)
        return 1
    print(f"seed {seed}: {summary(report)}, all sound; digest {report.digest}")
    return 0


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    """Runs at most `most` seeds, and begins no further one after `seconds_max`. 1: a seed failed, or too few seeds ran."""
    started, count = time.monotonic(), 0
    failed: dict[int, str] = {}
    faults: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    operations = 0
    for report in run_many(range(first, first + most), seconds=seconds_max):
        count += 1
        faults.update(report.kinds)
        paths.update(report.sometimes)
        operations += report.operations
        if report.violations:
            failed[report.seed] = report.violations[0]
            print_failure(report, STORY_LINES)
    seconds = time.monotonic() - started
    print(
        f"{count} of {most} seeds in {seconds:.0f} s ({seconds / max(1, count):.1f} s each), {operations} operations, "
        f"{faults.total()} faults, {len(failed)} seeds failed"
    )
    for name, times in sorted(faults.items()):
        print(f"  {times:8}  {name}")
    missing = print_paths(paths, count)
    if complaint := too_few(count, most):
        print(complaint)
    print_failed("cluster", failed)
    return 1 if failed or missing or complaint else 0


def print_paths(paths: Mapping[str, int], seeds: int) -> list[str]:
    """Prints how often each rare path was taken. Returns those that were never taken, though so many seeds must take all."""
    print("paths taken:")
    for name, times in sorted(paths.items()):
        print(f"  {times:8}  {name}")
    missing = [name for name, times in paths.items() if not times] if seeds >= PROVE_ALL else []
    for name in missing:
        print(f"  ! never: {name}")
    return missing


def summary(report: Report) -> str:
    return (
        f"{report.operations} operations, {report.faults} faults, {report.changes} changes of partition states, "
        f"{report.cleanings} compactions, "
        f"{report.messages} messages, {report.steps} steps in {report.seconds:.0f} virtual seconds"
    )


def print_failure(report: Report, lines: int) -> None:
    print(f"\nseed {report.seed}: {summary(report)}")
    for violation in report.violations[:20]:
        print(f"  ! {violation}")
    print(f"  replay: make simulate KIND=cluster SEED={report.seed}, with STORY=1 for all that happened")
    if lines:
        at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
        print("\n".join(f"  | {line}" for line in report.story[max(0, at - lines) : at + 5]))
