"""What one seed of client quotas came to."""

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.world import World


@dataclass(slots=True)
class Report:
    seed: int
    digest: str = ""
    seconds: float = 0.0
    steps: int = 0
    kind: str = ""
    answers: int = 0
    throttled: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


def report_of(world: World, logs: ServiceLogs, kind: str, answers: int, throttled: int, faults: Counter[str]) -> Report:
    return Report(
        world.seed,
        world.loop.digest(),
        world.seconds,
        world.loop.steps,
        kind,
        answers,
        throttled,
        faults,
        world.sometimes.counts,
        [*world.violations, *world.loop.failures, *logs.failures],
        world.story,
    )
