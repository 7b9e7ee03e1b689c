"""Thousands of seeds of one group, and what is printed of them."""

from collections import Counter

from tests.simulation.groups.run import Report, run_one
from tests.simulation.small_runs import SmallRuns, conclude

LEAST_ASKED = 100
"""Requests of a run, on average: runs in which nothing happens prove nothing."""


def summary(report: Report) -> str:
    return (
        f"a {report.kind} group, {report.asked} requests, {report.generations} generations, {report.owners} owners, "
        f"{report.faults.total()} faults, all sound; digest {report.digest}"
    )


RUNS = SmallRuns("groups", run_one, summary)


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def note(report: Report) -> None:
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

    count, failed, seconds = RUNS.run_seeds(first, most, seconds_max, note)
    print(
        f"{count} group runs in {seconds:.0f} s ({60 * count / seconds:.0f} a minute), {totals['asked']} requests, "
        f"{totals['acknowledged']} offsets acknowledged, {totals['fetched']} fetches, {totals['generations']} generations, "
        f"{totals['converted']} changes of protocol, {totals['owners']} owners, {len(failed)} seeds failed"
    )
    idle = totals["asked"] < LEAST_ASKED * count
    return conclude(RUNS.kind, count, most, failed, faults, f"fewer than {LEAST_ASKED} requests in a run" if idle else "")
