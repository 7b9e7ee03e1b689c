"""Many seeds, in as many processes as there are cores. A seed that fails is run again for its story."""

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.process_pool import process_pool
from tests.simulation.run import STEPS, Report, Run, SeedFailed


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    report: Report
    failure: str = ""
    story: tuple[str, ...] = ()


def run_one(seed: int, steps: int = STEPS) -> Outcome:
    logging.disable(logging.CRITICAL)  # recoveries warn of what they cut, thousands of times
    try:
        run = Run(seed, steps=steps)
        try:
            return Outcome(seed, run.run())
        except SeedFailed as failed:
            return Outcome(seed, run.report, str(failed), tuple(story_of(seed, steps)))
    finally:
        logging.disable(logging.NOTSET)


def story_of(seed: int, steps: int = STEPS) -> list[str]:
    """The operations up to the failure, one a line; all operations if there is none."""
    story: list[str] = []
    try:
        Run(seed, steps=steps, story=story).run()
    except SeedFailed as failed:
        story.append(f"! {failed}")
    return story


def run_many(seeds: Iterable[int], steps: int = STEPS, *, processes: int | None = None) -> Iterator[Outcome]:
    """The outcomes, in the order of the seeds."""
    seeds = list(seeds)
    workers = processes or min(os.cpu_count() or 1, len(seeds))
    with process_pool(workers) as pool:
        yield from pool.map(run_one, seeds, [steps] * len(seeds))
