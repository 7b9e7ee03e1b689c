"""One seed of one partition on three nodes: it is written to while things go wrong, everything heals, and it must be well."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from libs.wire.record_batches.records import Record, build_batch
from services.controller.core.elections import leader_election
from tests.simulation.replication.checks import HEADER_SIZE, Checks
from tests.simulation.replication.controller import Controller
from tests.simulation.replication.member import KEY, StorageMember, config_of
from tests.simulation.replication.network import Call, Network
from tests.simulation.replication.simulator import NO_PROCESS, Simulator

FAULTY_S, HEALED_S = 4.0, 40.0
PRODUCE_S = 0.15
FAULT_S = 1.2
LOOK_S = 0.04
BATCHES = [bytes(build_batch([Record(b"k", b"%06d" % number, 1_000_000)])) for number in range(400)]


@dataclass(slots=True)
class Report:
    seed: int
    digest: str = ""
    steps: int = 0
    produced: int = 0
    acknowledged: int = 0
    elections: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(self.kinds.values())


class ReplicationRun:
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        simulator = self.simulator = Simulator(seed, verbose=verbose)
        self.random = simulator.random
        self.network = Network(simulator)
        synced = self.random.random() < 0.65
        configs = {"durability": "synced" if synced else "replicated", "min.insync.replicas": self.random.choice("1222")}
        self.controller = Controller(simulator, self.network, configs, lambda state: self.checks.written(state))
        self.loss = 0.0
        self.nodes = [
            StorageMember(
                simulator,
                self.network,
                node_id,
                others=lambda node_id: self.nodes[node_id - 1],
                ask=self.controller.alter,
                loses=lambda: self.random.random() < self.loss,
                on_start=self._started,
                on_high_watermark=lambda node, partition: self.checks.high_watermark(node, partition),
            )
            for node_id in (1, 2, 3)
        ]
        self.controller.nodes = self.nodes
        self.checks = Checks(simulator, self.controller, self.nodes)
        self.report = Report(seed)
        self._written_in = -1
        """The leader epoch in which a produce was acknowledged by all in sync last, since everything healed."""
        self._faults: list[tuple[int, Callable[[StorageMember], None]]] = [
            (5, self._kill),
            (4, self._cut_power),
            (4, self._pause),
            (3, self._slow_disk),
            (4, self._block),
            (3, self._reset),
            (4, self._move_leader),
            (2, self._lose_answers),
            (2, self._mistake),
            (2, self._stop),
            (2, self._deafen),
            (1, self._configure),
        ]
        self._faults = [one for one in self._faults if self.random.random() < 0.5] or self._faults  # those of this run

    def run(self) -> Report:
        simulator, report = self.simulator, self.report
        violations = simulator.run(self._run())
        report.digest, report.steps = simulator.loop.digest(), simulator.loop.steps
        report.acknowledged, report.elections = len(self.checks.acknowledged), self.controller.state.leader_epoch
        report.violations, report.story = violations, simulator.story
        return report

    # -- the phases -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = self.simulator.loop
        for node in self.nodes:
            node.start(config_of(self.controller.image))
        self._look()
        self._produce_later()
        self._fault_later()
        await asyncio.sleep(FAULTY_S)
        self._heal()
        deadline = loop.time() + HEALED_S
        while missing := self._missing():
            if loop.time() > deadline:
                self.simulator.violation(f"15: {missing}, after {HEALED_S:.0f} s without faults")
                break
            await asyncio.sleep(0.05)
        self.checks.look()
        if not missing:
            self.checks.at_rest()

    def _missing(self) -> str:
        state = self.controller.state
        if state.leader < 0 or len(state.isr) < 3:
            return f"leader {state.leader}, ISR {[member.node_id for member in state.isr]}"
        leader = self.nodes[state.leader - 1]
        if leader.partition is None or not leader.partition.leading or leader.partition.leader_epoch < state.leader_epoch:
            return f"node {state.leader} does not lead"
        if self._written_in < state.leader_epoch:
            # In each epoch anew: what a deposed leader refused says nothing of the next one, nor of the logs that are cut for it.
            self._produce(leader, -1)
            return f"nothing is written in epoch {state.leader_epoch}"
        if any(node.partition is None or node.partition.high_watermark < leader.log.log_end_offset for node in self.nodes):
            return f"high watermarks {[node.partition and node.partition.high_watermark for node in self.nodes]}"
        if any(node.log.durable_offset < node.log.log_end_offset for node in self.nodes):
            return "logs are not durable"
        return ""

    def _look(self) -> None:
        self.checks.look()
        self.simulator.loop.call_later(LOOK_S, self._look, context=NO_PROCESS)

    def _started(self, node: StorageMember) -> None:
        self.simulator.loop.call_later(0.02 * self.random.random(), self._register, node, node.incarnation, context=NO_PROCESS)

    def _register(self, node: StorageMember, incarnation: int) -> None:
        if node.life is not None and node.incarnation == incarnation:
            self.controller.register(node)
            self.controller.show(node)

    # -- a client ---------------------------------------------------------------------------------------------------------

    def _produce_later(self) -> None:
        self.simulator.loop.call_later(PRODUCE_S * self.random.random(), self._produce_some, context=NO_PROCESS)

    def _produce_some(self) -> None:
        if self.simulator.loop.time() > 1000.0 + FAULTY_S:
            return
        leader = self.controller.state.leader
        if leader < 0 or self.random.random() < 0.1:
            leader = self.random.randint(1, 3)
        for _ in range(self.random.choice((1, 1, 1, 3))):
            self._produce(self.nodes[leader - 1], -1 if self.random.random() < 0.85 else 1)
        self._produce_later()

    def _produce(self, node: StorageMember, acks: int) -> None:
        report = self.report
        batch = BATCHES[report.produced % len(BATCHES)]
        report.produced += 1
        if node.life is None:
            return
        state = self.controller.state
        epoch = state.leader_epoch if self.random.random() < 0.9 else max(0, state.leader_epoch - 1)
        part = [*KEY, epoch, len(batch)]
        body = [acks, 1500, [part], None, self.controller.revision]

        def answer(body: object, _: bytes, error: Exception | None) -> None:
            found: list[list[list[int]]] = body  # type: ignore[assignment]
            if error is None and acks == -1 and not found[0][0][0]:
                assert node.partition is not None
                self._written_in = node.partition.leader_epoch
                self.checks.answered(node, found[0][0][1], batch[HEADER_SIZE:])

        at = self.network.arrival(0, node.node_id, 0.0)
        self.simulator.loop.call_at(at, node.produce, Call(body, memoryview(bytearray(batch)), answer), context=node.context)

    # -- what goes wrong --------------------------------------------------------------------------------------------------

    def _fault_later(self) -> None:
        self.simulator.loop.call_later(FAULT_S * self.random.random(), self._fault, context=NO_PROCESS)

    def _fault(self) -> None:
        if self.simulator.loop.time() > 1000.0 + FAULTY_S:
            return
        weights = [weight for weight, _ in self._faults]
        (_, fault) = self.random.choices(self._faults, weights)[0]
        node = self.random.choice(self.nodes)
        leader = self.controller.state.leader
        if leader > 0 and self.random.random() < 0.3:
            node = self.nodes[leader - 1]
        name = fault.__name__.strip("_").replace("_", " ")
        self.report.kinds[name] = self.report.kinds.get(name, 0) + 1
        self.simulator.log_event("%s: node %d", name, node.node_id)
        fault(node)
        self._fault_later()

    def _later(self, seconds: float, work: Callable[..., object], *args: object) -> None:
        self.simulator.loop.call_later(seconds, work, *args, context=NO_PROCESS)

    def _crash(self, node: StorageMember, *, power: bool) -> None:
        if node.life is None:
            return
        if power:
            self.checks.power_cut(node)
        incarnation = node.incarnation
        node.crash(power=power)
        noticed = self.random.random() * (1.2 if power else 0.3)
        self._later(noticed, self.controller.drop, node.node_id, incarnation)
        self._later(noticed * self.random.random(), self._lines_end, node)
        self._later(self.random.choice((0.02, 0.3, 1.5)) * (0.5 + self.random.random()), self._start, node)

    def _lines_end(self, node: StorageMember) -> None:
        for other in self.nodes:
            for connection in list(other.connections):
                if connection.receiver is node:
                    connection.reset()

    def _start(self, node: StorageMember) -> None:
        if node.life is None:
            node.start(config_of(self.controller.image))
            self._lines_end(node)

    def _kill(self, node: StorageMember) -> None:
        self._crash(node, power=False)
        if self.random.random() < 0.3:
            self._later(0.5 * self.random.random() ** 2, self._kill, self.random.choice(self.nodes))

    def _cut_power(self, node: StorageMember) -> None:
        self._crash(node, power=True)
        if self.random.random() < 0.15:
            for other in self.nodes:
                self._crash(other, power=True)

    def _pause(self, node: StorageMember) -> None:
        life = node.life
        if life is not None and not life.paused:
            life.paused = True
            self._later(self.random.choice((0.1, 1.0)) * (0.5 + self.random.random()), self.simulator.loop.resume, life)

    def _slow_disk(self, node: StorageMember) -> None:
        node.disk_slowness = self.random.choice((20.0, 200.0))
        self._later(1.5 * self.random.random(), setattr, node, "disk_slowness", 1.0)

    def _block(self, node: StorageMember) -> None:
        """Nothing arrives, one way or both; at the end it comes after all, or the connection is gone."""
        other = self.random.choice([each for each in self.nodes if each is not node])
        until = self.simulator.loop.time() + self.random.choice((0.2, 1.8)) * (0.5 + self.random.random())
        self.network.blocked[node.node_id, other.node_id] = until
        if self.random.random() < 0.5:
            self.network.blocked[other.node_id, node.node_id] = until
        if self.random.random() < 0.5:
            self._later(until - self.simulator.loop.time(), self._reset, node)

    def _reset(self, node: StorageMember) -> None:
        for other in self.nodes:
            for connection in list(other.connections):
                if node in (connection.receiver, connection.sender):
                    connection.reset()

    def _move_leader(self, node: StorageMember) -> None:
        state = self.controller.state
        able = leader_election.electable(state, self.controller.live)
        if state.leader >= 0 and able:
            self.controller.lead(self.random.choice(able))
        if self.random.random() < 0.4:
            self._later(0.1 * self.random.random() ** 2, self._move_leader, node)

    def _lose_answers(self, node: StorageMember) -> None:
        self.loss = 0.6
        self._later(1.5 * self.random.random(), setattr, self, "loss", 0.0)

    def _mistake(self, node: StorageMember) -> None:
        """A live node is taken for dead."""
        if node.life is not None:
            self.controller.drop(node.node_id, node.incarnation)
            self._later(0.1 + 0.5 * self.random.random(), self._register, node, node.incarnation)

    def _stop(self, node: StorageMember) -> None:
        if node.life is not None and node.node_id in self.controller.members and not node.life.paused:
            self.controller.register(node, stopping=True)
            self._later(0.3 * self.random.random(), self._kill, node)

    def _deafen(self, node: StorageMember) -> None:
        """A node hears nothing of the metadata, and others perhaps late."""
        self.controller.lateness = self.random.choice((0.0, 0.05, 0.3))
        self.network.blocked[0, node.node_id] = self.simulator.loop.time() + 1.5 * self.random.random()

    def _configure(self, node: StorageMember) -> None:
        self.controller.configure("min.insync.replicas", self.random.choice("123"))

    def _heal(self) -> None:
        self.simulator.log_event("everything heals")
        self._written_in = -1
        self.network.blocked.clear()
        self.loss = self.controller.lateness = 0.0
        for node in self.nodes:
            node.disk_slowness = 1.0
            if node.life is not None and node.life.paused:
                self.simulator.loop.resume(node.life)
            self._start(node)
            self._later(0.7, self._back, node)

    def _back(self, node: StorageMember) -> None:
        member = self.controller.members.get(node.node_id)
        if member is None or member.incarnation != node.incarnation or member.stopping:
            self._register(node, node.incarnation)


def run_one(seed: int, *, verbose: bool = False) -> Report:
    run = ReplicationRun(seed, verbose=verbose)
    try:
        return run.run()
    finally:
        run.simulator.discard()
