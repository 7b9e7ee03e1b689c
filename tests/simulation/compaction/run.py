"""One seed of compacted topics on a small cluster: deleted and made anew while nodes compact, restart and lose replicas."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from services.storage.partition.partition import Key
from tests.simulation.cluster.clients import Values
from tests.simulation.cluster.compacted_topic import entries_in
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.invariants import Invariants, content, hosted_by
from tests.simulation.cluster.processes import (
    KAFKA_PORT,
    ControllerProcess,
    GatewayProcess,
    Process,
    StorageProcess,
    share_process,
)
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.run_phases import LIVE_S, RunPhases
from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.world import World
from tests.simulation.compaction.made_anew import Lives, MadeAnew
from tests.support.transport_halves import has_nodes

FAULTY_S = 55.0
BIRTH_S = 30.0
NAMES = 3
NODES = 1, 2, 3
BROKER_CONFIGS = ("log.cleaner.backoff.ms=4000", "log.cleaner.dedupe.buffer.size=1048576")
FAULTS = (
    "storage killed",
    "storage loses power",
    "storage loses power amid a write",
    "storage is told to stop",
    "storage paused",
    "storage deposed unawares",
    "partition",
    "connections reset",
    "slow disk",
    "disk full",
)
SHORTER = 0.25
"""Of the time that faults last in whole clusters: a replica that is away for longer than `delete.retention.ms` may bring a
deleted key back, as in Kafka."""
OUT_S_MAX = 2.0
"""No fault begins while a replica has been out of sync for longer."""
CHECK_EVERY_S = 0.5


@dataclass(slots=True)
class Report:
    seed: int
    digest: str = ""
    seconds: float = 0.0
    steps: int = 0
    lives: int = 0
    tables: int = 0
    """Whole reads that were judged."""
    cleanings: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class CompactionRun(RunPhases):
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.world = world = World(seed)
        self.storage = [StorageProcess(world, node) for node in NODES]
        gateway = GatewayProcess(world, 1)
        if has_nodes(seed):
            share_process(self.storage[0], gateway)
        self.processes: list[Process] = [ControllerProcess(world, 1), *self.storage, gateway]
        world.broker_configs = BROKER_CONFIGS
        self.invariants = Invariants(world, self.storage, self._name_of)
        world.links.applied.append(self.invariants.applied)
        world.before_cleaning.append(self.invariants.cleaning)
        self.logs = ServiceLogs(world, verbose=verbose)
        self.lives: Lives = {}
        self._out_since: dict[tuple[Key, int], float] = {}
        recorder, values, bootstrap = Recorder(world.loop), Values(), [(gateway.host, KAFKA_PORT)]
        self.owners = [
            MadeAnew(world, number, bootstrap, recorder, values, self.lives, NODES, self._restart)
            for number in range(1, NAMES + 1)
        ]
        hosts = [owner.host for owner in self.owners]
        self.faults = Faults(world, self.processes, hosts, kinds=FAULTS, share=SHORTER, may_begin=self._may_fault)
        self._random = world.stream("restarts")

    def run(self, *, until_caught: bool = False) -> Report:
        """`until_caught`: it ends with the first violation."""
        world = self.world
        self.play(until_caught=until_caught)
        return Report(
            world.seed,
            world.loop.digest(),
            world.seconds,
            world.loop.steps,
            len(self.lives),
            sum(owner.tables for owner in self.owners),
            self.invariants.cleanings,
            Counter(self.faults.kinds),
            world.sometimes.counts,
            [*world.violations, *world.loop.failures, *self.logs.failures],
            world.story,
        )

    # --- the phases

    async def _run(self) -> None:
        world = self.world
        keepers = [self._start(work) for work in (self._look, self._check, self._supervise, self.faults.operate)]
        self._start_processes()
        await self._until(self._ready, BIRTH_S, "the cluster is not born")
        world.log_event("clients begin")
        working = [self._start(owner.run) for owner in self.owners]
        faulty = self._start(self.faults.run)
        await asyncio.sleep(FAULTY_S)
        faulty.cancel()
        world.log_event("everything heals")
        await self.faults.heal()
        for owner in self.owners:
            owner.stopping = True
        await self._ended(working, "a client")
        await self._until(self._ready, LIVE_S, "processes are not ready")
        await self._until(self._in_sync, LIVE_S, "the ISRs are not full")
        for owner in self.owners:
            await self._read_at_last(owner)
        for keeper in keepers:
            keeper.cancel()
        self.invariants.look()
        self._check_replicas()

    async def _read_at_last(self, owner: MadeAnew) -> None:
        deadline = self.world.seconds + LIVE_S
        while owner.last is not None and not await owner.last.read_table():
            if self.world.seconds > deadline:
                self.world.violation(f"15: the last topic of {owner.host} cannot be read")
                return

    async def _restart(self) -> None:
        """Kills one node or all, if none is behind."""
        if self._may_fault():
            self.world.sometimes("nodes restart when a topic was made")
            await (self.faults.kill_storage() if self._random.random() < 0.5 else self.faults.kill_all_storage())

    # --- what goes on beside

    async def _check(self) -> None:
        while True:
            self._look_who_is_out()
            self._check_replicas()
            await asyncio.sleep(CHECK_EVERY_S)

    def _check_replicas(self) -> None:
        """11: each replica in sync shows what a reader may see now."""
        for process in self.storage:
            for key, partition, incarnation in hosted_by(process):
                life = self.lives.get(key[0])
                if life is not None and self.invariants.in_sync(key, process, incarnation):
                    entries = entries_in(content(partition, partition.log_start_offset, partition.log_end_offset))
                    life.saw({offset: entry for offset, entry in entries.items() if offset < partition.high_watermark})
                    life.check(process.host, entries, life.acknowledged_so_far)

    def _look_who_is_out(self) -> None:
        self._out_since = {
            (key, replica.node_id): self._out_since.get((key, replica.node_id), self.world.seconds)
            for key, state in self.invariants.states.items()
            for replica in state.replicas
            if all(member.node_id != replica.node_id for member in state.isr)
        }

    # --- conditions

    def _may_fault(self) -> bool:
        now = self.world.seconds
        return now - min(self._out_since.values(), default=now) <= OUT_S_MAX

    def _in_sync(self) -> str:
        for key, state in self.invariants.states.items():
            if state.leader < 0 or len(state.isr) < len(state.replicas) or state.adding or state.removing:
                return f"{self._name_of(key)}: leader {state.leader}, ISR {[member.node_id for member in state.isr]}"
        return ""


def run_one(seed: int, *, verbose: bool = False, until_caught: bool = False) -> Report:
    """`verbose`: the story has also what the services log of their normal work. `until_caught`: the first violation ends it."""
    run = CompactionRun(seed, verbose=verbose)
    try:
        return run.run(until_caught=until_caught)
    finally:
        run.discard()
