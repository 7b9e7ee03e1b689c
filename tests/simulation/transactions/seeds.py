"""Thousands of seeds of transactions, and what is printed of them."""

from collections import Counter

from tests.simulation.small_runs import SmallRuns, conclude
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
        f"{len(failed)} seeds failed"
    )
    idle = totals["committed"] < LEAST_COMMITTED * count
    return conclude(
        RUNS.kind, count, most, failed, faults, f"fewer than {LEAST_COMMITTED} transactions committed in a run" if idle else ""
    )
