"""Thousands of seeds of one partition, and what is printed of them."""

from collections import Counter

from tests.simulation.replication.run import FAULTY_S, Report, run_one
from tests.simulation.small_runs import SmallRuns, conclude


def summary(report: Report) -> str:
    return (
        f"{report.produced} batches, {report.elections} elections, {report.faults} faults in {FAULTY_S:.0f} virtual "
        f"seconds, all sound; digest {report.digest}"
    )


RUNS = SmallRuns("component", run_one, summary)


def run_seeds(first: int, most: int, seconds_max: float | None) -> int:
    kinds: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def note(report: Report) -> None:
        kinds.update(report.kinds)
        totals.update(produced=report.produced, acknowledged=report.acknowledged, elections=report.elections)

    count, failed, seconds = RUNS.run_seeds(first, most, seconds_max, note)
    print(
        f"{count} component runs in {seconds:.0f} s ({60 * count / seconds:.0f} a minute), {totals['produced']} batches, "
        f"{totals['acknowledged']} acknowledged by all, {totals['elections']} elections, {len(failed)} seeds failed"
    )
    return conclude(RUNS.kind, count, most, failed, kinds)
