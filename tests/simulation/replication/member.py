"""A storage node that hosts one partition: its own replication code on a log in memory, with a life that ends at any await."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from random import Random
from types import SimpleNamespace
from typing import Any

from libs.cluster.configs.resolve import TopicConfig, effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync
from libs.rpc.contracts.replication import PULL
from services.storage.appends import Appends
from services.storage.core.replica import Replica, recovered_high_watermark
from services.storage.following.following import Following
from services.storage.following.surgery import Surgery
from services.storage.held_partitions import HeldPartitions
from services.storage.hosted import Hosted, Key
from services.storage.leading import Leading
from services.storage.partitions import Partitions
from services.storage.residents import Residents
from tests.simulation.cluster.loop import Life
from tests.simulation.replication.bench import Bench, life_of
from tests.simulation.replication.memory_log import MemoryLog, Sync
from tests.simulation.replication.wires import Call, Desk, Lines, Wire

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


class _Meters:
    def __getattr__(self, name: str) -> _Number:
        return _Number(0)


class _Configs:
    """In place of `TopicConfigs`: what all lives of all runs have computed."""

    def __init__(self) -> None:
        self._image = ClusterImage()

    def follow(self, image: ClusterImage) -> set[tuple[str, str]]:
        changed = image.overrides_by_resource != self._image.overrides_by_resource
        self._image = image
        return {("topic", TOPIC)} if changed else set()

    def of(self, topic: str) -> TopicConfig:
        return config_of(self._image)


class _Roles(Residents):
    """Of one partition, whose log is open already."""

    def __init__(
        self,
        partitions: Partitions,
        appends: Appends,
        wake: Callable[[Key], None],
        following: Following,
        home: tuple[Hosted, Any],
    ) -> None:
        self._node_id = partitions.node_id
        self._incarnation = partitions.incarnation
        self._partitions = partitions
        self._appends = appends
        self._readers: Any = SimpleNamespace(wake=wake)
        self._withdrawals: Any = SimpleNamespace(follow_image=lambda: None, served=lambda key: None)
        self._configs: Any = _Configs()
        self._homes = {KEY: home}
        self._tasks = {}
        self._again = set()
        self._unconfigured = {}
        self._loop = asyncio.get_running_loop()
        self._following = following
        self.held = HeldPartitions(partitions, self._tasks.keys(), following.let_go, self._answer_again)
        self.places: Any = SimpleNamespace(check=lambda hosted, home: None)


class _Disk:
    """What a cut asks of a disk, and of its checkpoints."""

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
        assert self._member.hosted is not None
        replica = self._member.hosted.replica
        checkpoint = min(replica.high_watermark, self._log.durable_offset)
        await asyncio.sleep(0.002 * self._member.random.random())
        self._member.checkpoint = checkpoint
        return True

    async def write_log_starts(self, disk: object, *, anyway: bool = False) -> bool:
        return True


class StorageMember:
    """`start`, and end it with `crash`. What survives that: `log`, `checkpoint`, the count of `incarnation`s."""

    def __init__(
        self,
        bench: Bench,
        lines: Lines,
        node_id: int,
        *,
        others: Callable[[int], "StorageMember"],
        ask: Callable[[object], object],
        loses: Callable[[], bool],
        on_start: Callable[["StorageMember"], None],
        on_high_watermark: Callable[["StorageMember", Hosted], None],
    ) -> None:
        self.bench, self.lines, self.node_id = bench, lines, node_id
        self.random: Random = bench.stream(f"member {node_id}")
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
        self.hosted: Hosted | None = None
        self.image = ClusterImage()
        self.wires: dict[Wire, None] = {}
        self._begun = False

    # -- life and death -------------------------------------------------------------------------------------------------

    def start(self, config: TopicConfig) -> None:
        self.incarnation += 1
        if self.lost_power:
            self.survived_from, self.lost_power = self.incarnation, False
        self.life, self.context = life_of(f"node {self.node_id} #{self.incarnation}")
        self.bench.tell("node %d starts, incarnation %d, log end %d", self.node_id, self.incarnation, self.log.log_end_offset)
        self.bench.loop.call_soon(self._boot, config, context=self.context)

    def crash(self, *, power: bool) -> None:
        assert self.life is not None
        self.bench.tell("node %d %s", self.node_id, "loses its power" if power else "is killed")
        self.bench.loop.end(self.life)
        self.life = self.hosted = None
        self.lost_power |= power
        self.log = self.log.after_crash(self.random, power=power)
        self.wires.clear()

    def _boot(self, config: TopicConfig) -> None:
        log = self.log
        partitions = self.partitions = Partitions(self.node_id, self.incarnation)
        sync = Sync(self.bench, log, self.random, lambda: self.disk_slowness, self._synced)
        high = recovered_high_watermark(self.checkpoint, log_start=0, durable=log.durable_offset, synced=config.synced)
        replica = Replica(
            *(self.node_id,), log_end=log.log_end_offset, durable=log.durable_offset, high_watermark=high, synced=config.synced
        )
        meters: Any = _Meters()
        hosted = self.hosted = Hosted(KEY, TOPIC, log, replica, config, sync)  # type: ignore[arg-type]
        disk: Any = _Disk(self, sync, log)
        sync.owe(hosted)
        clock: Any = SimpleNamespace(wall_ms=lambda: 1_000_000)
        nothing: Any = None
        self.appends = Appends(
            *(partitions, clock, meters, nothing),
            children=nothing,
            children_max=1,
            on_appended=lambda key: self.leading.pulls.appended(key),
            on_committed=self._committed,
            readers_wait=lambda key: False,
        )
        desk: Any = Desk(self.bench, self.lines, self, self._ask, self._loses)
        self.leading = Leading(*(self.incarnation, partitions, meters, desk), on_committed=self.appends.committed, static=STATIC)
        starts: Any = SimpleNamespace(follow=lambda *_: None)
        unregistered: Any = SimpleNamespace(registry=SimpleNamespace(register=lambda _: None))
        connect: Any = self._connect
        self.following = Following(
            *(self.node_id, self.incarnation, "", lambda: partitions.image, connect, Surgery(partitions, disk), starts),
            *(self._committed, unregistered, STATIC),
        )
        self.roles = _Roles(partitions, self.appends, self.leading.pulls.wake, self.following, (hosted, disk))
        self._begun = False
        self.leading.start()
        self._write_checkpoints(disk)
        self._on_start(self)

    def _connect(self, address: str, leader: int) -> Wire:
        wire = Wire(self.bench, self.lines, self, self._others(leader))
        self.wires[wire] = None
        return wire

    def _write_checkpoints(self, disk: _Disk) -> None:
        assert self.hosted is not None
        self.checkpoint = min(self.hosted.high_watermark, self.log.durable_offset)
        self.bench.loop.call_later(CHECKPOINT_S, self._write_checkpoints, disk)

    # -- what happens to it -----------------------------------------------------------------------------------------------

    def see(self, image: ClusterImage) -> None:
        if image.revision <= self.partitions.image.revision:
            return
        self.roles.follow(self.partitions.image, image)
        if not self._begun and image.members(STORAGE).get(self.node_id) == self.registration:
            self._begun = True
            self.following.begin()

    registration: object = None

    def serve(self, method: str, call: Call) -> None:
        pulls: Any = self.leading.pulls
        (pulls.accept if method == PULL else pulls.progress)(call)

    def produce(self, call: Call) -> None:
        taken: Any = call
        self.appends.accept(taken)
        self.appends.end_turn()

    def _committed(self, hosted: Hosted) -> None:
        self._on_high_watermark(self, hosted)
        if hosted.leading:
            self.leading.pulls.committed(KEY)

    def _synced(self) -> None:
        hosted = self.hosted
        assert hosted is not None
        if hosted.replica.synced_to(hosted.log.durable_offset):
            self.appends.committed(hosted)
        self.following.synced(hosted)
        self.following.round_ended()

    @property
    def in_sync(self) -> InSync:
        return InSync(self.node_id, self.incarnation)
