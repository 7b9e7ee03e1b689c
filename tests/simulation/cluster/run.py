"""One seed of the whole cluster: it is born, clients work while things go wrong, everything heals, and then it must be well."""

import asyncio
from dataclasses import dataclass, field

from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from services.storage.partition.partition import Key
from tests.history.judge import judge
from tests.history.report import format_verdict
from tests.simulation.cluster import groups, kafka_client, transactions
from tests.simulation.cluster.administrator import Administrator
from tests.simulation.cluster.clients import REQUEST_S, Client, Consumer, Producer, Values, key_of
from tests.simulation.cluster.compacted_topic import Names, NamesProducer, NamesReader
from tests.simulation.cluster.coordinator_process import CoordinatorProcess, TransactionCoordinatorProcess
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.final_disks import look_at_disks
from tests.simulation.cluster.groups import Groups
from tests.simulation.cluster.hostile_client import HostileClient
from tests.simulation.cluster.invariants import Invariants, hosted_by
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.lasting_offsets import LastingOffsets
from tests.simulation.cluster.local_reader import LocalReader
from tests.simulation.cluster.pipelining import PipeliningProducer
from tests.simulation.cluster.processes import (
    KAFKA_PORT,
    ControllerProcess,
    GatewayProcess,
    Process,
    StorageProcess,
    share_kernel,
    share_process,
)
from tests.simulation.cluster.reassigner import Reassigner
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.recreated_topic import RecreatedTopic
from tests.simulation.cluster.resources import Resources
from tests.simulation.cluster.run_phases import LIVE_S, RunPhases
from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.transactions import Transactions
from tests.simulation.cluster.world import World
from tests.support.transport_halves import has_nodes

FAULTY_S = 120.0
BIRTH_S = 30.0
COMPARE_EVERY_S = 15.0
CLIENTS = 4
CONSUMER_PAUSE_S = 0.1
PRODUCER_PAUSE_S = 0.28
FAULTS_LEAST, OPERATIONS_LEAST = 20, 5_000
COMPACTED = "names"
COMPACTED_TOPICS = (COMPACTED, GROUP_TOPIC, TRANSACTION_TOPIC)
TOPICS = {"orders": 3, "clicks": 2, "pages": 2}
"""Partitions by name. Orders are acknowledged by all of the ISR, clicks by the leader alone; pages by the page caches of all.
"""
EXPIRATION_MS = 100_000
"""`producer.id.expiration.ms`: shorter than a run, longer than any batch is on its way, and far shorter than records are old."""
BROKER_CONFIGS = (
    "log.cleaner.backoff.ms=2000",
    "log.cleaner.dedupe.buffer.size=1048576",
    f"producer.id.expiration.ms={EXPIRATION_MS}",
    "producer.id.expiration.check.interval.ms=2000",
)


@dataclass(slots=True)
class Report:
    seed: int
    digest: str = ""
    seconds: float = 0.0
    steps: int = 0
    messages: int = 0
    operations: int = 0
    faults: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    cleanings: int = 0
    sometimes: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    verdict: str = ""
    story: list[str] = field(default_factory=list)


def configs_of(topic: str) -> list[tuple[str, str]]:
    durability = "replicated" if topic == "pages" else "synced"
    configs = [("segment.ms", "20000"), ("segment.index.bytes", "4096"), ("durability", durability)]
    if topic in COMPACTED_TOPICS:
        segment_ms = "8000" if topic == COMPACTED else "25000"
        configs += [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"), ("segment.ms", segment_ms)]
    return configs


class ClusterRun(RunPhases):
    def __init__(self, seed: int, *, factor: int = 3, faulty_s: float = FAULTY_S, verbose: bool = False) -> None:
        self.world = world = World(seed)
        self.factor, self.faulty_s = factor, faulty_s
        self.storage = [StorageProcess(world, node) for node in (1, 2, 3)]
        self.gateways = [GatewayProcess(world, node) for node in (1, 2)]
        if has_nodes(seed):
            for node, gateway in zip(self.storage, self.gateways, strict=False):
                share_process(node, gateway)
        else:
            share_kernel(self.storage[0], self.gateways[0])
        coordinators = [CoordinatorProcess(world, node) for node in (1, 2)]
        transaction_coordinators = [TransactionCoordinatorProcess(world, node) for node in (1, 2)]
        self.processes: list[Process] = [
            *(ControllerProcess(world, node) for node in (1, 2, 3)),
            *self.storage,
            *self.gateways,
            *coordinators,
            *transaction_coordinators,
        ]
        bootstrap = [(gateway.host, KAFKA_PORT) for gateway in self.gateways]
        world.broker_configs = BROKER_CONFIGS
        self.partitions: list[Partition] = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        self.recorder = Recorder(world.loop)
        self.clients = [Client(world, f"client-{number}", bootstrap, [*TOPICS, COMPACTED]) for number in range(1, CLIENTS + 1)]
        self.faults = Faults(world, self.processes, [client.name for client in self.clients])
        self.invariants = Invariants(world, self.storage, self._name_of)
        self.resources = Resources(world, self.processes)
        world.links.applied.append(self.invariants.applied)
        self.invariants.paged, self.invariants.compacted = ("pages",), COMPACTED_TOPICS
        world.before_cleaning.append(self.invariants.cleaning)
        world.before_power_cut.append(self.invariants.power_cut)
        self.logs = ServiceLogs(world, verbose=verbose)
        values = Values()
        sure = [partition for partition in self.partitions if partition[0] != "clicks"]
        loose = [partition for partition in self.partitions if partition[0] == "clicks"]
        self.producers: list[Producer] = []
        for at, client in enumerate(self.clients):
            if at:
                own = Client(world, f"{client.name}-pipelining", bootstrap, [*TOPICS, COMPACTED], host=client.name)
                self.producers.append(PipeliningProducer(own, self.recorder, sure, values))
            else:
                self.producers.append(Producer(client, self.recorder, sure, values, idempotent=True, acks=-1))
            self.producers.append(Producer(client, self.recorder, sure, values, idempotent=False, acks=-1))
            self.producers.append(Producer(client, self.recorder, loose, values, idempotent=True, acks=1))
        self.names = Names(world, (COMPACTED, 0))
        hosts = [client.name for client in self.clients]
        self.groups = Groups(world, self.clients[0], coordinators, self.storage, bootstrap, hosts, self.partitions)
        self.transactions = Transactions(
            *(world, self.recorder, values, transaction_coordinators, self.storage, bootstrap, hosts, self.invariants),
        )
        self.every_partition = [
            *(*self.partitions, self.names.partition, *self.groups.partitions, *self.transactions.partitions),
        ]
        self.producers += [NamesProducer(client, self.recorder, self.names, values) for client in self.clients[1:3]]
        self.names_reader = NamesReader(self.clients[0], self.names)
        self.consumers = [Consumer(client, self.recorder, self.partitions) for client in self.clients[:2]]
        self.others = [
            Administrator(self.clients[-1], factor, [*TOPICS, COMPACTED]),
            Reassigner(self.clients[-2], self.every_partition, (1, 2, 3), self.invariants.was),
            self.names_reader,
            RecreatedTopic(self.clients[-1], coordinators, factor),
            LastingOffsets(self.clients[0], self.partitions, self.groups.all_have_committed),
            LocalReader(
                Client(world, "local-reader", bootstrap, [*TOPICS], host=hosts[0]),
                *(self.recorder, self.partitions, 1, (self.gateways[0].host, KAFKA_PORT + 1)),
            ),
            HostileClient(world, bootstrap, self.partitions[0]),
        ]

    def run(self, *, until_caught: bool = False) -> Report:
        """`until_caught`: it ends with the first violation."""
        world = self.world
        self.play(until_caught=until_caught)
        if not world.violations:
            look_at_disks(world, self.storage, COMPACTED_TOPICS, EXPIRATION_MS / 1000)
        report = Report(
            world.seed,
            world.loop.digest(),
            world.seconds,
            world.loop.steps,
            world.network.messages,
            self.operations,
            self.faults.count,
            self.faults.kinds,
            self.invariants.changes,
            self.invariants.cleanings,
            {name: world.sometimes.counts[name] for name in (*groups.POINTS, *transactions.POINTS)},
            [*world.violations, *world.loop.failures, *self.logs.failures],
            "",
            world.story,
        )
        if report.faults < FAULTS_LEAST and self.faulty_s >= FAULTY_S:
            report.violations.append(f"{report.faults} faults prove too little")
        verdict = judge(self.recorder.history(world.seed))
        report.verdict = format_verdict(verdict)
        for finding in verdict.findings:
            if finding.key is None or finding.key not in world.excused:
                report.violations.append(f"history: {finding.kind}: {finding.key}: {finding.says}")
        return report

    # --- the phases

    async def _run(self) -> None:
        world = self.world
        keepers = [
            self._start(self._look),
            self._start(self.resources.run),
            self._start(self._compare),
            self._start(self._supervise),
            self._start(self.faults.operate),
            self._start(self.transactions.look),
        ]
        self._start_processes()
        await self._until(self._ready, BIRTH_S, "the cluster is not born")
        await self._create_topics()
        await self.groups.configure()
        await self._until(self._in_sync, BIRTH_S, "the topics' partitions are not in sync")
        world.log_event("clients begin")
        working = [self._start(lambda producer=producer: producer.run(PRODUCER_PAUSE_S)) for producer in self.producers]  # type: ignore[misc]
        reading = [self._start(lambda consumer=consumer: consumer.run(CONSUMER_PAUSE_S)) for consumer in self.consumers]  # type: ignore[misc]
        reading += [self._start(other.run) for other in self.others]
        reading += self.transactions.start()
        members = self.groups.start()
        faulty = self._start(self.faults.run)
        await asyncio.sleep(self.faulty_s)
        if self.faulty_s >= FAULTY_S:  # a seed may be hard on the clients
            await self._until(self._too_little_work, FAULTY_S, "clients get too little done")
        faulty.cancel()
        world.log_event("everything heals")
        await self.faults.heal()
        self.groups.steady()
        self.transactions.stop()
        for client in (*self.producers, *self.consumers, *self.others):
            client.stopping = True
        await self._ended([*working, *reading], "a client")
        await self._live(members)
        for keeper in keepers:
            keeper.cancel()
        self.invariants.look()

    async def _live(self, members: "list[asyncio.Task[None]]") -> None:
        """15: everything finishes within a bound."""
        world = self.world
        if not await self._until(self._ready, LIVE_S, "processes are not ready"):
            return
        await self._until(self._in_sync, LIVE_S, "the ISRs are not full")
        for producer in self.producers:
            producer.stopping = False
        for producer in (*self.producers[:3], self.producers[-1]):
            for partition in producer.partitions:
                if not await producer.send(partition) and not await producer.send(partition):
                    world.violation(f"15: {key_of(partition)} takes no writes")
        reader = Consumer(self.clients[0], self.recorder, self.partitions)
        reader.assign()
        ends = {partition: await self._end(partition) for partition in self.partitions}
        deadline = world.loop.time() + LIVE_S
        while behind := [one for one, end in ends.items() if reader.positions[one] < end]:
            if world.loop.time() > deadline:
                world.violation(f"15: {behind} cannot be read to their ends {ends}: {reader.positions}")
                break
            await reader.poll(behind)
        await self._end_transactions()
        self.names.left(await self.names_reader.read_all(await self._end(self.names.partition)))
        if await self._until(lambda: self.groups.unsettled(ends), LIVE_S, "groups do not settle"):
            await self.groups.look(ends, self._end)
            await self._until(self.groups.not_as_in_the_log, LIVE_S, "shards cannot be compared with their logs")
        self.groups.stop()
        await self._ended(members, "a member")
        await self._until(self._same_ends, LIVE_S, "followers do not reach their leaders' ends")
        await self._until(self.resources.leaks, LIVE_S, "descriptors are left behind")
        self.invariants.compare_logs(whole=True)

    async def _end_transactions(self) -> None:
        transactions = self.transactions
        await transactions.transfer_at_last()
        await self._until(transactions.outcomes.unfinished, LIVE_S, "transactions do not end")
        await self._until(transactions.uncopied, LIVE_S, "copiers do not come to the end")
        for copier in transactions.copiers:
            copier.stop()
        await self._ended(transactions.copying, "a copier")
        await self._until(transactions.outcomes.unfinished, LIVE_S, "copies do not end")
        await transactions.read_all()
        await self._until(transactions.not_as_in_the_log, LIVE_S, "shards of transactions cannot be compared with their logs")

    async def _end(self, partition: Partition) -> int:
        client = self.clients[0]
        deadline = self.world.loop.time() + LIVE_S
        while self.world.loop.time() < deadline:
            try:
                link = await client.leader(partition)
                if link is not None:
                    error, offset = await kafka_client.end_offset(link, partition, REQUEST_S)
                    if not error:
                        known = self.recorder.acknowledged.get(key_of(partition), -1)
                        if offset <= known:
                            what = f"4: {key_of(partition)} ends at {offset}, and {known} was acknowledged"
                            self.world.violation(what, loss_of=key_of(partition))
                        return offset
            except Disconnected:
                pass
            await asyncio.sleep(0.2)
            await client.refresh()
        self.world.violation(f"15: nobody knows where {key_of(partition)} ends")
        return 0

    # --- what goes on beside

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(COMPARE_EVERY_S)
            self.invariants.compare_logs(whole=False)

    # --- conditions

    @property
    def operations(self) -> int:
        return self.recorder.calls + self.names.operations + self.groups.operations

    def _too_little_work(self) -> str:
        return "" if self.operations >= OPERATIONS_LEAST else f"{self.operations} operations"

    def _in_sync(self) -> str:
        for key, state in self.invariants.states.items():
            if state.leader < 0 or len(state.isr) < self.factor or state.adding or state.removing:
                return f"{self._name_of(key)}: leader {state.leader}, ISR {[member.node_id for member in state.isr]}"
        return "" if len(self.invariants.states) == len(self.every_partition) else "not all topics are there"

    def _same_ends(self) -> str:
        ends: dict[Key, set[int]] = {}
        for process in self.storage:
            for key, partition, _ in hosted_by(process):
                ends.setdefault(key, set()).add(partition.log_end_offset)
        return "".join(f"{self._name_of(key)} ends at {sorted(found)} " for key, found in ends.items() if len(found) > 1)

    def _topics(self) -> dict[str, int]:
        """Partitions by name."""
        shards = {GROUP_TOPIC: groups.SHARDS, TRANSACTION_TOPIC: transactions.SHARDS}
        return {**TOPICS, **transactions.TOPICS, COMPACTED: 1, **shards}

    async def _create_topics(self) -> None:
        topics = [
            CreatableTopic(name, count, self.factor, configs=[CreatableTopicConfig(*config) for config in configs_of(name)])
            for name, count in self._topics().items()
        ]
        deadline = self.world.loop.time() + BIRTH_S
        while self.world.loop.time() < deadline:
            try:
                answer = await kafka_client.create(await self.clients[0].any_gateway(), topics, REQUEST_S)
            except Disconnected:
                answer = {}
            if answer and all(error in (0, 36) for error, _ in answer.values()):
                return
            self.world.log_event(f"topics are not created: {answer}")
            await asyncio.sleep(0.5)
        raise TimeoutError("topics cannot be created")
