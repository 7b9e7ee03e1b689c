"""Thousands of seeds of transactions, and what is printed of them."""

from collections import Counter

from tests.simulation.budget import too_few
from tests.simulation.small_runs import SmallRuns
from tests.simulation.transactions.run import Report, run_one

LEAST_COMMITTED = 4
"""Transactions of a run, on average: runs in which nothing happens prove nothing."""


def summary(report: Report) -> str:
    return (
        f"{report.committed} transactions committed, {report.aborted} aborted, {report.acknowledged} batches, "
        f"{report.owners} owners, {report.elections} elections, {report.faults.total()} faults, all sound; digest {report.digest}"
    )


RUNS = SmallRuns("transactions", run_one, summary)


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def note(report: Report) -> None:
        faults.update(report.faults)
        totals.update(
            {
                "committed": report.committed,
                "aborted": report.aborted,
                "batches": report.acknowledged,
                "owners": report.owners,
                "elections": report.elections,
                "late": report.dropped_late,
            }
        )

    count, failed, seconds = RUNS.run_seeds(first, most, seconds_max, note)
    print(
        f"{count} transaction runs in {seconds:.0f} s ({60 * count / seconds:.0f} a minute), {totals['committed']} transactions "
        f"committed, {totals['aborted']} aborted, {totals['batches']} batches acknowledged, {totals['owners']} owners, "
        f"{totals['elections']} elections, {totals['late']} requests of old clients dropped that came in their next transaction, "
        f"{failed} seeds failed"
    )
    for name, times in sorted(faults.items()):
        print(f"  {times:8}  {name}")
    idle = totals["committed"] < LEAST_COMMITTED * count
    if idle:
        print(f"too little happened: fewer than {LEAST_COMMITTED} transactions committed in a run")
    if complaint := too_few(count, most):
        print(complaint)
    return 1 if failed or idle or complaint else 0
