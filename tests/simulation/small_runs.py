"""Many seeds of runs that take milliseconds or few seconds, in a process for each core, and what is printed of them."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tests.simulation.budget import in_time, too_few
from tests.simulation.failed_seeds import print_failed
from tests.simulation.process_pool import process_pool
from tests.support.requirements import ROOT

TOGETHER = 50
STORY_LINES, LINES_AFTER, LINE_LENGTH = 80, 15, 400
PRINTED_MAX = 10


class Report(Protocol):
    seed: int
    violations: list[str]
    story: list[str]


R = TypeVar("R", bound=Report)


@dataclass(frozen=True, slots=True)
class SmallRuns(Generic[R]):
    kind: str
    """As `make simulate KIND=` has it."""
    run_one: Callable[..., R]
    """(seed, *, verbose=False). `verbose`: its report has a story."""
    summary: Callable[[R], str]
    together: int = TOGETHER
    """Seeds of one job."""

    def run_many(self, seeds: Iterable[int], *, processes: int | None = None, seconds: float | None = None) -> Iterator[R]:
        """The reports in the order of the seeds, of as many seeds as begin within `seconds`."""
        seeds = list(seeds)
        workers = processes or min(os.cpu_count() or 1, len(seeds))
        with process_pool(workers) as pool:
            chunks = [seeds[at : at + self.together] for at in range(0, len(seeds), self.together)]
            for reports in in_time(pool, self.run_all, chunks, seconds):
                yield from reports

    def run_all(self, seeds: Iterable[int]) -> list[R]:
        return [self.run_one(seed) for seed in seeds]

    def run_seeds(
        self, first: int, most: int, seconds_max: float | None, note: Callable[[R], None]
    ) -> tuple[int, dict[int, str], float]:
        """The number of seeds that ran, the first violation of each that failed, and the seconds that all took.

        `note` is called with each report; the first that failed are told. After `seconds_max` no further seeds begin.
        """
        started, count = time.monotonic(), 0
        failed: dict[int, str] = {}
        for report in self.run_many(range(first, first + most), seconds=seconds_max):
            count += 1
            note(report)
            if report.violations:
                failed[report.seed] = report.violations[0]
                if len(failed) <= PRINTED_MAX:
                    self.print_failure(self.run_one(report.seed, verbose=True), STORY_LINES)
        return count, failed, time.monotonic() - started

    def replay(self, seed: int, *, everything: bool) -> int:
        report = self.run_one(seed, verbose=True)
        if everything:
            print("\n".join(report.story))
        if report.violations:
            self.print_failure(report, STORY_LINES if not everything else 0)
            return 1
        print(f"seed {seed}: {self.summary(report)}")
        return 0

    def print_failure(self, report: R, lines: int) -> None:
        print(f"\n{self.kind} seed {report.seed}:")
        for violation in report.violations[:10]:
            print(f"  ! {violation}")
        print(f"  replay: make simulate KIND={self.kind} SEED={report.seed}, with STORY=1 for all that happened")
        if lines:
            at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
            shown = report.story[max(0, at - lines) : at + LINES_AFTER]
            print("\n".join(f"  | {line[:LINE_LENGTH]}" for line in shown))


def conclude(kind: str, count: int, most: int, failed: Mapping[int, str], faults: Counter[str], idle: str = "") -> int:
    """Prints how often each fault occurred, and what is wrong with these runs as a whole. The exit code. `idle`: too little
    happened in them, in words."""
    for name, times in sorted(faults.items()):
        print(f"  {times:8}  {name}")
    if idle:
        print(f"too little happened: {idle}")
    if complaint := too_few(count, most):
        print(complaint)
    print_failed(kind, failed)
    return 1 if failed or idle or complaint else 0


def digests_of(package: str, seeds: Iterable[int], hash_seed: str) -> str:
    """The digests of runs in a process of their own, which hashes differently."""
    program = f"from {package}.run import run_one; print([run_one(seed).digest for seed in {list(seeds)}])"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return done.stdout
