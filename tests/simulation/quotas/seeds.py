"""Many seeds of client quotas, and what is printed of them."""

from collections import Counter

from tests.simulation.quotas.report import Report
from tests.simulation.quotas.run import run_one
from tests.simulation.small_runs import SmallRuns, conclude

LEAST_THROTTLED = 300
"""Answers of a run that tell a throttle time, on average: runs in which nobody is muted prove nothing."""


def summary(report: Report) -> str:
    return (
        f"{report.kind}, {report.answers} answers, {report.throttled} of them throttled, {report.faults.total()} faults in "
        f"{report.seconds:.0f} virtual seconds, all sound; digest {report.digest}"
    )


RUNS = SmallRuns("quotas", run_one, summary, together=5)


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def note(report: Report) -> None:
        faults.update(report.faults)
        totals.update({"answers": report.answers, "throttled": report.throttled})

    count, failed, seconds = RUNS.run_seeds(first, most, seconds_max, note)
    print(
        f"{count} runs of client quotas in {seconds:.0f} s ({seconds / max(1, count):.1f} s each), {totals['answers']} answers, "
        f"{totals['throttled']} of them throttled, {len(failed)} seeds failed"
    )
    few = f"fewer than {LEAST_THROTTLED} throttled answers in a run" if totals["throttled"] < LEAST_THROTTLED * count else ""
    return conclude(RUNS.kind, count, most, failed, faults, few)
