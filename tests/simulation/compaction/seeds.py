"""Many seeds of compacted topics that are made anew, and what is printed of them."""

from collections import Counter

from tests.simulation.compaction.run import Report, run_one
from tests.simulation.small_runs import SmallRuns, conclude

LEAST_TABLES = 20
"""Whole reads of a run, on average: runs in which nothing happens prove nothing."""
POINTS = (
    "a topic was made anew",
    "nodes restart when a topic was made",
    "a deleted key shows neither value nor tombstone",
)


def summary(report: Report) -> str:
    return (
        f"{report.lives} lives of topics, {report.cleanings} compactions, {report.tables} whole reads, "
        f"{report.faults.total()} faults in {report.seconds:.0f} virtual seconds, all sound; digest {report.digest}"
    )


RUNS = SmallRuns("compaction", run_one, summary, together=1)


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    faults: Counter[str] = Counter()
    sometimes: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def note(report: Report) -> None:
        faults.update(report.faults)
        sometimes.update(report.sometimes)
        totals.update({"lives": report.lives, "cleanings": report.cleanings, "tables": report.tables})

    count, failed, seconds = RUNS.run_seeds(first, most, seconds_max, note)
    print(
        f"{count} runs of compacted topics in {seconds:.0f} s ({seconds / max(1, count):.1f} s each), {totals['lives']} lives of "
        f"topics, {totals['cleanings']} compactions, {totals['tables']} whole reads, {len(failed)} seeds failed"
    )
    never = [name for name in POINTS if not sometimes[name]]
    few = f"fewer than {LEAST_TABLES} whole reads in a run" if totals["tables"] < LEAST_TABLES * count else ""
    idle = f"never: {', '.join(never)}" if never else few
    return conclude(RUNS.kind, count, most, failed, faults, idle)
