"""Single seeds of every kind of simulation, and of the property tests: what each violates."""

import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.simulation import seeds as disk
from tests.simulation.cluster import seeds as cluster
from tests.simulation.compaction import run as compaction
from tests.simulation.groups import run as groups
from tests.simulation.hunt import properties
from tests.simulation.quotas import run as quotas
from tests.simulation.replication import run as component
from tests.simulation.transactions import run as transactions


class Kind(NamedTuple):
    violation_of: Callable[[int], str]
    """The first violation of a seed. "": the run was sound."""
    together: int
    """Seeds of one job: some ten seconds of CPU, so that little is lost when a hunt is broken off."""


@dataclass(frozen=True, slots=True)
class Job:
    kind: str
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    kind: str
    seeds: int
    failed: dict[int, str]
    """The first violation of each seed that failed."""
    cpu_s: float


def _first(violations: Sequence[str]) -> str:
    return violations[0] if violations else ""


KINDS: Final = {
    "disk": Kind(lambda seed: disk.run_one(seed).failure, 4),
    "component": Kind(lambda seed: _first(component.run_one(seed).violations), 400),
    "groups": Kind(lambda seed: _first(groups.run_one(seed).violations), 100),
    "transactions": Kind(lambda seed: _first(transactions.run_one(seed).violations), 250),
    "compaction": Kind(lambda seed: _first(compaction.run_one(seed).violations), 3),
    "quotas": Kind(lambda seed: _first(quotas.run_one(seed).violations), 8),
    "cluster": Kind(lambda seed: _first(cluster.run_one(seed).violations), 1),
    "properties": Kind(properties.violation_of, 1),
}
"""By name, as `make simulate KIND=` has it."""


def prepare_worker() -> None:
    """Ctrl-C reaches all processes: the main one ends the others, which end what they have started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def run_job(job: Job) -> Outcome:
    """Runs in a process of a pool. A run that raises has failed, and the seeds behind it are run."""
    began, failed = _cpu_s(), {}
    for seed in job.seeds:
        if violation := violation_of(job.kind, seed):
            failed[seed] = violation
    return Outcome(job.kind, len(job.seeds), failed, _cpu_s() - began)


def violation_of(kind: str, seed: int) -> str:
    """Raises TestsDoNotRun."""
    try:
        return KINDS[kind].violation_of(seed)
    except properties.TestsDoNotRun:
        raise
    except Exception as error:
        return raised(error)


def raised(error: Exception) -> str:
    """The violation of a run that raised."""
    return f"the run raised {type(error).__name__}: {error}"


def _cpu_s() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )
