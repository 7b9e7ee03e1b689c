"""One seed of one group: its clients and its coordinator live through faults, everything heals, and it must come to rest."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.groups.classic_clients import Classic
from tests.simulation.groups.convergence import Convergence
from tests.simulation.groups.faults import Faults
from tests.simulation.groups.group_world import GroupWorld
from tests.simulation.groups.operator import Operator
from tests.simulation.groups.reading import REBALANCE_MS, SESSION_MS
from tests.simulation.groups.simulator import Violated

FAULTY_MS, HEALED_MS = 30_000, 150_000
LOOK_MS = 500
CALM_LOOKS = 6
LATEST_MS = 5_000
"""What was sent arrives within so long, and may be written then."""
FAULT_MS = 1500


@dataclass(slots=True)
class Report:
    seed: int
    kind: str = ""
    digest: str = ""
    steps: int = 0
    asked: int = 0
    acknowledged: int = 0
    fetched: int = 0
    generations: int = 0
    converted: int = 0
    owners: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class GroupRun:
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.world = GroupWorld(seed, verbose=verbose)
        self.operator = Operator(self.world)
        self.faults = Faults(self.world)
        self.world.new_owner()

    def run(self) -> Report:
        report = Report(self.seed, self.world.kind)
        simulator = self.world.simulator
        simulator.log_event(f"a {self.world.kind} group of {len(self.world.clients)}")
        try:
            for client in self.world.clients:
                simulator.later(self.world.random.random() * 4000, client.start)
            self.faults.begin(FAULT_MS)
            self.operator.begin()
            simulator.run(FAULTY_MS)
            self._heal()
            convergence = Convergence(self.world)
            self._until(convergence.is_idle, CALM_LOOKS, HEALED_MS, "it does not come to rest")
            convergence.check()
            self._end(convergence)
        except Violated as violated:
            report.violations.append(str(violated))
        except Exception as error:  # a service that raises is a finding like others, with its story
            simulator.log_event(f"VIOLATION {error!r}")
            report.violations.append(repr(error))
            self.world.simulator.story += traceback.format_exc().splitlines()
        return self._reported(report)

    def _reported(self, report: Report) -> Report:
        checks = self.world.checks
        report.digest, report.steps, report.story = (
            self.world.simulator.digest,
            self.world.simulator.steps,
            self.world.simulator.story,
        )
        report.asked, report.acknowledged, report.fetched = self.world.network.asked, checks.acknowledged, checks.fetched
        report.generations, report.converted, report.owners = checks.generations, checks.converted, len(self.world.owners)
        report.faults = self.faults.counts
        return report

    def _heal(self) -> None:
        self.world.simulator.log_event("everything heals")
        self.faults.end()
        self.operator.ends = True
        if self.world.owner.dead or self.world.owner.epoch != self.world.partition.image_owner_epoch:
            self.world.new_owner()
        for former in self.world.owners[:-1]:
            former.unload()
        for client in self.world.clients:
            client.link.owner = self.world.owner
            client.commits = False
            client.paused_ms = 0.0
            if isinstance(client, Classic):
                client.asks_anew = client.cooperative and client.instance is not None
            client.start()

    def _end(self, convergence: Convergence) -> None:
        for client in self.world.clients:
            client.crash()
        if self.world.random.random() < 0.5:  # the next one has heard of none of them
            self.world.owner.kill()
            self.world.new_owner()
        rounds = 3 if self.world.kind != "simple" else 0
        self._until(convergence.is_over, 1, rounds * (SESSION_MS + REBALANCE_MS), "somebody is in it for ever")

    def _until(self, holds: Callable[[], str], looks: int, ms_max: int, otherwise: str) -> None:
        """Holds for so many looks in a row. `holds` says what is missing."""
        calm, missing = 0, ""
        records = self.world.checks.records
        for _ in range(max(ms_max, LATEST_MS) // LOOK_MS):
            self.world.simulator.run(LOOK_MS)
            missing = holds()
            calm = calm + 1 if not missing and records == self.world.checks.records else 0
            records = self.world.checks.records
            if calm >= looks:
                return
        self.world.simulator.fail(f"{otherwise}: {missing or 'something is written again and again'}")


def run_one(seed: int, *, verbose: bool = False) -> Report:
    return GroupRun(seed, verbose=verbose).run()
