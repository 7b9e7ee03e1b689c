"""A storage node that hosts one partition: its own replication code on a log in memory, with a life that ends at any await."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from random import Random
from types import SimpleNamespace
from typing import Any

from libs.cluster.configs.resolve import TopicConfig, effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync
from libs.rpc.contracts.replication import PULL
from libs.runtime.process import Identity
from libs.telemetry.log_burst import LogBurst
from services.storage.config import BrokerConfigs
from services.storage.core.effects import EffectHandlers
from services.storage.core.replication.leader.replica import Replica, recovered_high_watermark
from services.storage.disks.disk_reads import DiskReads
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.effects import EffectQueue
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.topic_traffic import TopicTraffic
from services.storage.produce.appends import Appends
from services.storage.reconcile.frozen_partitions import FrozenPartitions
from services.storage.reconcile.lead_traces import LeadTraces
from services.storage.reconcile.reconciler import Reconciler
from services.storage.replication.follower.fetcher_manager import FetcherManager
from services.storage.replication.follower.truncation import Truncation
from services.storage.replication.leader.leadership import LeaderReplication
from tests.simulation.append_traces import checked_recorder
from tests.simulation.cluster.loop import Life
from tests.simulation.replication.memory_log import MemoryLog, Sync
from tests.simulation.replication.network import Call, Connection, ControllerClient, Network
from tests.simulation.replication.simulator import Simulator, life_of

KEY: Key = (b"t" * 16, 0)
TOPIC = "t"
STATIC = {"replica.lag.time.max.ms": "1200"}
CHECKPOINT_S = 0.7
_configs: dict[frozenset[tuple[str, str]], TopicConfig] = {}


def config_of(image: ClusterImage) -> TopicConfig:
    own = frozenset(image.overrides("topic", TOPIC).items())
    if own not in _configs:
        _configs[own] = effective_topic_config(image, TOPIC)
    return _configs[own]


class _Number(int):
    """Counts, and takes observations, for nobody."""

    def observe(self, *_: object) -> None:
        pass

    def setdefault(self, *_: object) -> None:
        pass


class _Meters:
    def __getattr__(self, name: str) -> _Number:
        return _Number(0)


class _Configs:
    """A stand-in for `TopicConfigs`: the computed configs that all lives of all runs share."""

    def __init__(self) -> None:
        self._image = ClusterImage()

    def follow(self, image: ClusterImage) -> set[tuple[str, str]]:
        changed = image.overrides_by_resource != self._image.overrides_by_resource
        self._image = image
        return {("topic", TOPIC)} if changed else set()

    def of(self, topic: str) -> TopicConfig:
        return config_of(self._image)


class _Roles(Reconciler):
    """The reconciler of one partition, whose log is open already."""

    def __init__(
        self,
        partitions: PartitionTable,
        appends: Appends,
        wake: Callable[[Key], None],
        fetchers: FetcherManager,
        home: tuple[Partition, Any],
        traces: LeadTraces,
    ) -> None:
        self._node_id = partitions.node_id
        self._incarnation = partitions.incarnation
        self._partitions = partitions
        self._appends = appends
        self._waiting_readers: Any = SimpleNamespace(wake=wake)
        self._withdrawals: Any = SimpleNamespace(follow_image=lambda: None, reinstate=lambda key: None, resume=lambda key: None)
        self._log_opening: Any = SimpleNamespace(forget=lambda key: None)
        self._configs: Any = _Configs()
        self._open_logs: Any = OpenLogs(partitions)
        self._open_logs.put(*home)
        self._traces = traces
        self._tasks = {}
        self._rework = set()
        self._to_configure = {}
        self._loop = asyncio.get_running_loop()
        self._image_at = self._loop.time()
        self._leading_lines = LogBurst(logging.getLogger(__name__), "leading", self._loop)
        self._fetchers = fetchers
        self.frozen = FrozenPartitions(partitions, self._tasks.keys(), fetchers.stop_fetching, self._reconcile_again)
        self.directory_checks: Any = SimpleNamespace(check=lambda partition, home: None)

    async def _evict(self, partition: Partition) -> None:
        await self.released(partition)
        self._fetchers.stop_fetching(partition)
        self._open_logs.remove(partition.key)


class _Disk:
    """The part of a disk and its checkpoints that a truncation needs."""

    path = "memory"

    def __init__(self, member: "StorageMember", sync: Sync, log: MemoryLog) -> None:
        self.sync = sync
        self.logs = self
        self._member = member
        self._log = log

    async def submit(self, work: Callable[[], object]) -> None:
        await asyncio.sleep(0.002 * self._member.random.random())
        work()

    async def write_high_watermarks_of(self, disk: object) -> bool:
        assert self._member.partition is not None
        replica = self._member.partition.replica
        checkpoint = min(replica.high_watermark, self._log.durable_offset)
        await asyncio.sleep(0.002 * self._member.random.random())
        self._member.checkpoint = checkpoint
        return True

    async def write_log_starts(self, disk: object, *, anyway: bool = False) -> bool:
        return True

    async def limit_cleaned_offset(self, key: object, topic: str, end_offset: int) -> None:
        """Nothing is compacted here."""


class StorageMember:
    """`start`, and end it with `crash`. What survives that: `log`, `checkpoint`, the count of `incarnation`s."""

    def __init__(
        self,
        simulator: Simulator,
        network: Network,
        node_id: int,
        *,
        others: Callable[[int], "StorageMember"],
        ask: Callable[[object], object],
        loses: Callable[[], bool],
        on_start: Callable[["StorageMember"], None],
        on_high_watermark: Callable[["StorageMember", Partition], None],
    ) -> None:
        self.simulator, self.network, self.node_id = simulator, network, node_id
        self.random: Random = simulator.stream(f"member {node_id}")
        self._others, self._ask, self._loses = others, ask, loses
        self._on_start, self._on_high_watermark = on_start, on_high_watermark
        self.log = MemoryLog([], 0, ())
        self.checkpoint = 0
        self.incarnation = 0
        self.survived_from = 0
        self.disk_slowness = 1.0
        self.lost_power = True
        self.life: Life | None = None
        self.context = Context()
        self.partition: Partition | None = None
        self.image = ClusterImage()
        self.connections: dict[Connection, None] = {}
        self._begun = False

    # -- life and death -------------------------------------------------------------------------------------------------

    def start(self, config: TopicConfig) -> None:
        self.incarnation += 1
        if self.lost_power:
            self.survived_from, self.lost_power = self.incarnation, False
        self.life, self.context = life_of(f"node {self.node_id} #{self.incarnation}")
        self.simulator.log_event(
            "node %d starts, incarnation %d, log end %d", self.node_id, self.incarnation, self.log.log_end_offset
        )
        self.simulator.loop.call_soon(self._boot, config, context=self.context)

    def crash(self, *, power: bool) -> None:
        assert self.life is not None
        self.simulator.log_event("node %d %s", self.node_id, "loses its power" if power else "is killed")
        self.simulator.loop.end(self.life)
        self.life = self.partition = None
        self.lost_power |= power
        self.log = self.log.after_crash(self.random, power=power)
        self.connections.clear()

    def _boot(self, config: TopicConfig) -> None:
        log = self.log
        partitions = self.partitions = PartitionTable(self.node_id, self.incarnation, 1)
        sync = Sync(self.simulator, log, self.random, lambda: self.disk_slowness, self._synced)
        high = recovered_high_watermark(self.checkpoint, log_start=0, durable=log.durable_offset, synced=config.synced)
        replica = Replica(
            *(self.node_id,), log_end=log.log_end_offset, durable=log.durable_offset, high_watermark=high, synced=config.synced
        )
        meters: Any = _Meters()
        partition = self.partition = Partition(
            *(KEY, TOPIC, log, replica, config, sync, lambda one: self.effects.add(one), TopicTraffic())  # type: ignore[arg-type]
        )
        disk: Any = _Disk(self, sync, log)
        sync.request_round(partition)
        clock: Any = SimpleNamespace(wall_ms=lambda: 1_000_000, wall_ns=lambda: 1_000_000_000_000)
        recorder = checked_recorder(self.node_id, self.incarnation, clock)
        traces = AppendTraces(recorder)
        nothing: Any = None
        self.appends = Appends(
            *(partitions, clock, meters, nothing),
            children=nothing,
            children_max=1,
            confirm=lambda partitions, on_confirmed: self.leading.confirmations.confirm(partitions, on_confirmed),
            ask_owner=nothing,
            on_appended=lambda key: self.leading.pulls.appended(key),
            readers_wait=lambda key: False,
            coordinators=nothing,
            on_committed=lambda one, waited_s: None,
            traces=traces,
        )
        controller_client: Any = ControllerClient(self.simulator, self.network, self, self._ask, self._loses)
        broker_configs = BrokerConfigs(lambda: partitions.image, self.node_id, STATIC)
        self.leading = LeaderReplication(
            *(partitions, meters, controller_client, broker_configs, nothing, DiskReads(lambda path: None), traces.trail),
            on_slow_followers=lambda nodes: None,
        )
        self.effects = EffectQueue(
            EffectHandlers(
                answer_produces=self.appends.successes.answer_committed,
                wake_fetches=self._committed,
                notify_pulls=lambda one: None,
                report_log_start=lambda one: None,
                wake_record_deletions=lambda one: one.replica.wake_start_watchers(),
                change_isr=self.leading.isr_changes.consider,
                report_isr=self.leading.isr_changes.report,
            )
        )
        starts: Any = SimpleNamespace(follow=lambda *_: None)
        unregistered: Any = SimpleNamespace(registry=SimpleNamespace(register=lambda _: None))
        connect: Any = self._connect
        self.following = FetcherManager(
            Identity(STORAGE, self.node_id, self.incarnation, "", ""),
            connect,
            Truncation(partitions, disk),
            starts,
            unregistered,
            broker_configs,
        )
        self.roles = _Roles(
            partitions, self.appends, self.leading.pulls.wake, self.following, (partition, disk), LeadTraces(recorder)
        )
        self._begun = False
        self.leading.start()
        self._write_checkpoints(disk)
        self._on_start(self)

    def _connect(self, address: str, leader: int) -> Connection:
        connection = Connection(self.simulator, self.network, self, self._others(leader))
        self.connections[connection] = None
        return connection

    def _write_checkpoints(self, disk: _Disk) -> None:
        assert self.partition is not None
        self.checkpoint = min(self.partition.high_watermark, self.log.durable_offset)
        self.simulator.loop.call_later(CHECKPOINT_S, self._write_checkpoints, disk)

    # -- what happens to it -----------------------------------------------------------------------------------------------

    def see(self, image: ClusterImage) -> None:
        if image.revision <= self.partitions.image.revision:
            return
        self.network.arrived(0, self.node_id, image)
        self.roles.follow(self.partitions.image, image)
        if not self._begun and image.members(STORAGE).get(self.node_id) == self.registration:
            self._begun = True
            self.following.begin()

    registration: object = None

    def serve(self, method: str, call: Call) -> None:
        pulls: Any = self.leading.pulls
        self.effects.begin_turn()
        (pulls.accept if method == PULL else pulls.progress)(call)
        self.effects.end_turn()

    def produce(self, call: Call) -> None:
        taken: Any = call
        self.effects.begin_turn()
        self.appends.accept(taken)
        self.appends.end_turn()
        self.effects.end_turn()

    def _committed(self, partition: Partition) -> None:
        self._on_high_watermark(self, partition)
        if partition.leading:
            self.leading.pulls.committed(KEY)

    def _synced(self) -> None:
        partition = self.partition
        assert partition is not None
        self.effects.begin_turn()
        partition.replica.synced_to(partition.log.durable_offset)
        self.following.synced(partition)
        self.effects.end_turn()
        self.following.round_ended()

    @property
    def in_sync(self) -> InSync:
        return InSync(self.node_id, self.incarnation)
