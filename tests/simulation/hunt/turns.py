"""The turns of a hunt: the kind of simulation that has had the least CPU is next, until the time is over."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field

from tests.simulation.hunt.progress import Progress
from tests.simulation.hunt.seed_runs import Job, Outcome


@dataclass(slots=True)
class Figures:
    """What one hunt has run, by kind."""

    seeds: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)
    failed: dict[str, dict[int, str]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.seeds[outcome.kind] += outcome.seeds
        self.cpu_s[outcome.kind] += outcome.cpu_s
        self.failed.setdefault(outcome.kind, {}).update(outcome.failed)


def hunt(
    pool: Executor,
    run: Callable[[Job], Outcome],
    together: Mapping[str, int],
    progress: Progress,
    *,
    seconds: float,
    workers: int,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Outcome]:
    """The outcomes as they come. `together`: by kind, the seeds of one job.

    `run` is called with a job in `pool`. After `seconds` no job begins, and those that run are awaited.
    """
    progress.begin(together)
    end = now() + seconds
    running = dict[Future[Outcome], str]()
    while True:
        while len(running) < workers and now() < end:
            kind = _next(together, progress.cpu_s, running.values())
            running[pool.submit(run, progress.take(kind, together[kind]))] = kind
        if not running:
            return
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            del running[done]
            outcome = done.result()
            progress.add(outcome)
            yield outcome


def _next(kinds: Iterable[str], cpu_s: Mapping[str, float], running: Iterable[str]) -> str:
    """Kinds that run now come last: their CPU is not counted yet."""
    under_way = Counter(running)
    return min(kinds, key=lambda kind: (under_way[kind], cpu_s[kind]))
