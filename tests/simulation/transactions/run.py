"""One seed of transactions: producers, coordinators and leaders live through faults, everything heals, and all must rest."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.transactions.applications import Application
from tests.simulation.transactions.coordinator_process import CoordinatorProcess
from tests.simulation.transactions.faults import Faults
from tests.simulation.transactions.readers import Reader
from tests.simulation.transactions.storage_node import StorageNode
from tests.simulation.transactions.world import World

FAULTY_S, HEALED_S = 4.0, 30.0
LAST_S = 1.0
"""Between the end of all faults and the end of the producers: they write through what faults left."""


@dataclass(slots=True)
class Report:
    seed: int
    digest: str = ""
    steps: int = 0
    sent: int = 0
    acknowledged: int = 0
    committed: int = 0
    aborted: int = 0
    read: int = 0
    owners: int = 0
    elections: int = 0
    dropped_late: int = 0
    joined_appends: int = 0
    """Requests to a leader that brought appends of several shards."""
    generations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class TransactionRun:
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        world = self.world = World(seed, verbose=verbose)
        self.checks = world.checks
        world.make_node = lambda node_id, incarnation: StorageNode(world, node_id, incarnation)
        world.make_coordinator = lambda node_id, incarnation: CoordinatorProcess(world, node_id, incarnation)
        self.applications = [Application(world, f"t{number}") for number in range(world.random.choice((1, 2, 2)))]
        self.readers = [Reader(world, history.key) for history in world.data]
        self.faults = Faults(self, world)

    def run(self) -> Report:
        return self._reported(self.world.simulator.run(self._run()))

    async def _run(self) -> None:
        world, loop = self.world, self.world.simulator.loop
        world.begin()
        for reader in self.readers:
            reader.begin()
        for application in self.applications:
            application.start()
        self.faults.begin()
        await asyncio.sleep(FAULTY_S)
        self._heal()
        await asyncio.sleep(LAST_S)
        for application in self.applications:
            application.retire(crash=world.random.random() < 0.5)
        deadline = loop.time() + HEALED_S
        while missing := self._missing():
            if loop.time() > deadline:
                world.simulator.violation(f"15: {missing}, after {HEALED_S:.0f} s without faults")
                return
            await asyncio.sleep(0.1)
        self.checks.at_rest()
        for history in world.data:  # from the beginning, and to the end
            reader = Reader(world, history.key)
            reader.read_from(world.nodes[history.leader])
            self.checks.has_read(history.key, reader.seen, reader.position)

    def _heal(self) -> None:
        world = self.world
        world.simulator.log_event("everything heals")
        self.faults.end()
        for process in world.processes:
            process.deaf_until = 0.0
        for node_id in list(world.nodes):
            world.start_node(node_id)
            self.elect_anew(node_id, dead_only=True)
        for node_id in list(world.coordinators):
            world.start_coordinator(node_id)
        for shard, (owner, _) in world.owners.items():
            if all(str(process.owner) != owner for process in world.coordinators.values()):
                world.assign(shard)
        world.changed()

    def elect_anew(self, node_id: int, *, dead_only: bool = False) -> None:
        """Has others lead what a node led that is dead, or taken for dead."""
        node = self.world.nodes[node_id]
        for history in self.world.histories.values():
            dead = not node.alive or history.leader_incarnation != node.incarnation
            if history.leader == node_id and (dead or not dead_only):
                self.world.elect(history)

    def restart_node(self, node_id: int) -> None:
        self.world.start_node(node_id)
        self.elect_anew(node_id, dead_only=True)

    def _missing(self) -> str:
        world, log = self.world, self.checks.log
        for application in self.applications:
            if application.runs:
                return f"{application.newest.name} has not ended"
        for transactional_id, newest in log.newest.items():
            if newest.state.value not in ("Empty", "CompleteCommit", "CompleteAbort"):
                return f"{transactional_id} is {newest.state.value}"
        for history in world.histories.values():
            node = world.nodes[history.leader]
            partition = node.partitions.by_key.get(history.key)
            if partition is None or partition.leader_epoch != history.leader_epoch:
                return f"nobody leads {history}"
            if history in world.data and partition.last_stable_offset < partition.log_end_offset:
                return f"{history} is stable up to {partition.last_stable_offset}, and ends at {partition.log_end_offset}"
        return ""

    def _reported(self, violations: list[str]) -> Report:
        world, checks = self.world, self.checks
        loop = world.simulator.loop
        report = Report(self.seed, loop.digest(), loop.steps, checks.sent, len(checks.acked))
        report.committed = sum(checks.answered.values())
        report.aborted = len(checks.answered) - report.committed
        report.read = checks.reads
        report.joined_appends = world.joined_appends
        report.owners = sum(epoch for _, epoch in world.owners.values())
        report.elections = sum(history.leader_epoch for history in world.histories.values())
        report.dropped_late = world.network.dropped_late
        report.faults = self.faults.counts
        report.generations.update(name for application in self.applications for name in application.generations)
        report.violations = violations
        report.story = world.simulator.story
        return report


def run_one(seed: int, *, verbose: bool = False) -> Report:
    run = TransactionRun(seed, verbose=verbose)
    try:
        return run.run()
    finally:
        run.world.simulator.discard()
