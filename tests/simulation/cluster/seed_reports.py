"""What `make simulate KIND=cluster` prints."""

import time
from collections import Counter

from tests.simulation.cluster.many import run_many, run_one
from tests.simulation.cluster.run import Report

STORY_LINES = 80
PROVE_ALL = 6
"""So many seeds must have taken all the paths that are rare in each."""


def replay(seed: int, *, everything: bool) -> int:
    report = run_one(seed, verbose=everything)
    if everything:
        print("\n".join(report.story))
    if report.violations:
        tell(report, STORY_LINES if not everything else 0)
        return 1
    print(f"seed {seed}: {said(report)}, all sound; digest {report.digest}")
    return 0


def run_seeds(first: int, count: int) -> int:
    started, failed = time.monotonic(), 0
    faults: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    operations = 0
    for report in run_many(range(first, first + count)):
        faults.update(report.kinds)
        paths.update(report.sometimes)
        operations += report.operations
        if report.violations:
            failed += 1
            tell(report, STORY_LINES)
    seconds = time.monotonic() - started
    print(
        f"{count} seeds in {seconds:.0f} s ({seconds / count:.1f} s each), {operations} operations, "
        f"{faults.total()} faults, {failed} seeds failed"
    )
    for name, times in sorted(faults.items()):
        print(f"  {times:8}  {name}")
    print("paths taken:")
    for name, times in sorted(paths.items()):
        print(f"  {times:8}  {name}")
    missing = [name for name, times in paths.items() if not times] if count >= PROVE_ALL else []
    for name in missing:
        print(f"  ! never: {name}")
    return 1 if failed or missing else 0


def said(report: Report) -> str:
    return (
        f"{report.operations} operations, {report.faults} faults, {report.changes} changes of partition states, "
        f"{report.cleanings} compactions, "
        f"{report.messages} messages, {report.steps} steps in {report.seconds:.0f} virtual seconds"
    )


def tell(report: Report, lines: int) -> None:
    print(f"\nseed {report.seed}: {said(report)}")
    for violation in report.violations[:20]:
        print(f"  ! {violation}")
    print(f"  replay: make simulate KIND=cluster SEED={report.seed}, with STORY=1 for all that happened")
    if lines:
        at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
        print("\n".join(f"  | {line}" for line in report.story[max(0, at - lines) : at + 5]))
