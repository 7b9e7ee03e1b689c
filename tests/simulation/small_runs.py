"""Thousands of seeds of runs that take milliseconds, in as many processes as there are cores, and what is printed of them."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

TOGETHER = 50
STORY_LINES, LINES_AFTER, LINE_LENGTH = 80, 15, 400
TOLD_MOST = 10


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
    """(seed, *, tells=False). `tells`: its report has a story."""
    said: Callable[[R], str]

    def run_many(self, seeds: Iterable[int], *, processes: int | None = None) -> Iterator[R]:
        """In the order of the seeds."""
        seeds = list(seeds)
        workers = processes or min(os.cpu_count() or 1, len(seeds))
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(self.run_one, seeds, chunksize=TOGETHER)

    def run_seeds(self, first: int, count: int, note: Callable[[R], None]) -> tuple[int, float]:
        """How many failed, and the seconds that all took. `note` is called with each report; the first that failed are told."""
        started, failed = time.monotonic(), 0
        for report in self.run_many(range(first, first + count)):
            note(report)
            if report.violations:
                failed += 1
                if failed <= TOLD_MOST:
                    self.tell(self.run_one(report.seed, tells=True), STORY_LINES)
        return failed, time.monotonic() - started

    def replay(self, seed: int, *, everything: bool) -> int:
        report = self.run_one(seed, tells=True)
        if everything:
            print("\n".join(report.story))
        if report.violations:
            self.tell(report, STORY_LINES if not everything else 0)
            return 1
        print(f"seed {seed}: {self.said(report)}")
        return 0

    def tell(self, report: R, lines: int) -> None:
        print(f"\n{self.kind} seed {report.seed}:")
        for violation in report.violations[:10]:
            print(f"  ! {violation}")
        print(f"  replay: make simulate KIND={self.kind} SEED={report.seed}, with STORY=1 for all that happened")
        if lines:
            at = next((at for at, line in enumerate(report.story) if "VIOLATION" in line), len(report.story))
            shown = report.story[max(0, at - lines) : at + LINES_AFTER]
            print("\n".join(f"  | {line[:LINE_LENGTH]}" for line in shown))
