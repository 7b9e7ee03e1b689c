"""A storage node that leads partitions: the services' append path, verification and markers, on logs in memory."""

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

from libs.cluster.configs.resolve import effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, TRANSACTION_COORDINATOR
from libs.commitlog.model.errors import LogWriteError
from libs.rpc.contracts.ownership import CLAIM
from libs.rpc.contracts.storage import APPEND, FETCH, Fetch, Fetched, FetchReply
from libs.rpc.contracts.transactions import WRITE_MARKERS
from libs.rpc.messages.schema import unpack
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.wire.errors import ErrorCode
from services.storage.core.effects import EffectHandlers
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.ownership import ImageOwner
from services.storage.core.replication.leader.replica import Replica
from services.storage.core.replication.leadership import Follow, Lead, decide_role
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.effects import EffectQueue
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.topic_traffic import TopicTraffic
from services.storage.produce.appends import Appends
from services.storage.produce.internal_topic_ownership import OnOwner
from services.storage.produce.transaction_markers import TransactionMarkers
from tests.simulation.append_traces import checked_recorder
from tests.simulation.transactions.network import Call, Clients, Connection, Server
from tests.simulation.transactions.partition_history import PartitionHistory
from tests.simulation.transactions.record_log import RecordLog
from tests.simulation.transactions.world import World

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
CONFIG = effective_topic_config(ClusterImage(), "t")
CHECK_S_MAX = 0.02

ANSWER_S = 0.002
"""Of the metadata store. It draws no random number, so runs without late images are as they were."""


class _Number(int):
    """Counts, and takes observations, for nobody."""

    def observe(self, *_: object) -> None:
        pass


class _Meters:
    def __getattr__(self, name: str) -> _Number:
        return _Number(0)


class _Coordinators(TransactionCoordinators):
    def __init__(self, clients: Any) -> None:
        self._clients = clients
        self._image = ClusterImage()


class _Sync:
    """The part of `SyncScheduler` that appends use: one round at a time, which commits what the log had at its beginning."""

    failed = stalled = suspended = False

    def __init__(self, node: "StorageNode", history: PartitionHistory, log: RecordLog, leader_epoch: int) -> None:
        self._node, self._history, self._log, self._leader_epoch = node, history, log, leader_epoch
        self._dirty = self._running = False
        self.partition: Partition
        self.room = self

    def appended(self, partition: Partition) -> None:
        self._dirty = True

    request_round = appended

    def mark_urgent(self) -> None:
        pass

    def append_failed(self, error: LogWriteError, partition: Partition) -> None:
        pass

    def start_round(self) -> None:
        if self._dirty and not self._running:
            self._dirty, self._running = False, True
            world = self._node.world
            delay_s = (0.0005 + 0.003 * world.random.random()) * world.disk_slowness.get(self._history.key, 1.0)
            self._node.soon(delay_s, self._ended, self._log.log_end_offset)

    def _ended(self, end: int) -> None:
        self._running = False
        if not self._history.commit(self._leader_epoch, self._log, end):
            return
        effects = self._node.effects
        effects.begin_turn()
        self._log.durable_offset = max(self._log.durable_offset, end)
        self.partition.replica.synced_to(self._log.durable_offset)
        effects.end_turn()
        self._node.world.checks.stable(self._node, self.partition)
        self.start_round()


class StorageNode(Server):
    def __init__(self, world: World, node_id: int, incarnation: int) -> None:
        super().__init__(world.simulator, STORAGE, node_id, incarnation)
        self.world = world
        self.partitions = PartitionTable(node_id, incarnation, 1)
        self._booted = False

    def _boot(self) -> None:
        self._booted = True
        nothing: Any = None
        meters: Any = _Meters()
        clock: Any = SimpleNamespace(wall_ms=lambda: self.world.wall_ms, wall_ns=lambda: self.world.wall_ms * 1_000_000)
        checks: Any = SimpleNamespace(check=self._check)
        find = self.world.process_of
        self.clients = Clients(self.world.network, self, TRANSACTION_COORDINATOR, find)
        self._coordinators = _Coordinators(self.clients)
        self.appends = Appends(
            *(self.partitions, clock, meters, checks),
            children=nothing,
            children_max=1,
            confirm=self._confirm,
            ask_owner=self._ask_owner,
            on_appended=lambda key: None,
            readers_wait=lambda key: False,
            coordinators=self._coordinators,
            on_committed=lambda one, waited_s: None,
            traces=AppendTraces(checked_recorder(self.node_id, self.incarnation, clock)),
        )
        markers = TransactionMarkers(self.appends)
        self.effects = EffectQueue(
            EffectHandlers(
                answer_produces=self.appends.successes.answer_committed,
                wake_fetches=lambda one: None,
                notify_pulls=lambda one: None,
                report_log_start=lambda one: None,
                wake_record_deletions=lambda one: None,
                change_isr=lambda one: None,
                report_isr=lambda one: None,
            )
        )
        self._methods: dict[str, Callable[[Any], None]] = {
            APPEND: self.appends.accept,
            WRITE_MARKERS: markers.accept,
            CLAIM: self.appends.owners.accept,
            FETCH: self._fetch,
        }

    # -- requests ---------------------------------------------------------------------------------------------------------

    def serve(self, method: str, call: Call) -> None:
        if not self._booted:
            call.fail(int(ErrorCode.BROKER_NOT_AVAILABLE), "it knows no image yet")
            return
        self.effects.begin_turn()
        self.world.joined_appends += method == APPEND and len(call.body[2]) > 1
        self._methods[method](call)
        self.appends.end_turn()
        self.effects.end_turn()

    def _fetch(self, call: Call) -> None:
        """Answers a coordinator that loads a shard."""
        (asked,) = unpack(Fetch, call.body).partitions
        partition = self.partitions.serving((asked.topic_id, asked.partition))
        if isinstance(partition, Refusal):
            call.reply(FetchReply((Fetched(partition.error),)))
        elif partition.is_behind:
            call.reply(FetchReply((Fetched(int(ErrorCode.OFFSET_NOT_AVAILABLE)),)))
        else:
            log: Any = partition.log
            batches = log.between(asked.fetch_offset, partition.high_watermark)[:20]
            content = b"".join(batch.content for batch in batches)
            call.reply(FetchReply((Fetched(0, partition.high_watermark, inline_length=len(content)),)), (content,))

    def _check(self, partition: Partition, on_checked: Callable[[Refusal | None], None]) -> None:
        """`LeaderChecks`, with a metadata store that answers."""
        leader_epoch = partition.leader_epoch
        self._later(lambda: on_checked(self._refusal(partition.key, leader_epoch)))

    def _confirm(self, partitions: Collection[Partition], on_confirmed: Callable[[Mapping[Key, Refusal]], None]) -> None:
        epochs = {partition.key: partition.leader_epoch for partition in partitions}

        def answer() -> None:
            refusals = {key: self._refusal(key, epoch) for key, epoch in epochs.items()}
            on_confirmed({key: refusal for key, refusal in refusals.items() if refusal is not None})

        self._later(answer)

    def _ask_owner(self, partition: Partition, on_owner: OnOwner) -> None:
        """`OwnerQuestions`, with a metadata store that answers."""
        self.soon(ANSWER_S, lambda: on_owner(ImageOwner(*self.world.owners[partition.key[1]])))

    def _refusal(self, key: Key, leader_epoch: int) -> Refusal | None:
        history = self.world.histories[key]
        if (history.leader, history.leader_epoch) == (self.node_id, leader_epoch):
            return None
        return Refusal(NOT_LEADER_OR_FOLLOWER, None, history.leader, history.leader_epoch)

    def _later(self, work: Callable[[], None]) -> None:
        self.soon(CHECK_S_MAX * self.world.random.random(), work)

    @property
    def connections(self) -> list[Connection]:
        return self.clients.all if self._booted else []

    # -- leading ----------------------------------------------------------------------------------------------------------

    def see(self, image: ClusterImage) -> None:
        if image.revision <= self.image.revision:
            return
        if not self._booted:
            self._boot()
        self.image = self.partitions.image = image
        self.clients.follow(image)
        self._coordinators.follow(image)
        self.effects.begin_turn()
        for key, history in self.world.histories.items():
            state = image.partition(*key)
            assert state is not None
            self._take_role(history, decide_role(state, node_id=self.node_id, incarnation=self.incarnation))
        self.appends.recheck()
        self.effects.end_turn()

    def _take_role(self, history: PartitionHistory, role: Lead | Follow) -> None:
        partition = self.partitions.by_key.get(history.key)
        if partition is not None and not (isinstance(role, Lead) and role.leader_epoch == partition.leader_epoch):
            leader = role.leader if isinstance(role, Follow) else -1
            partition.replica.become_follower(role.leader_epoch)
            self.appends.refuse_waiting(partition, Refusal(NOT_LEADER_OR_FOLLOWER, None, leader, role.leader_epoch))
            del self.partitions.by_key[history.key]
            partition = None
        if partition is None and isinstance(role, Lead):
            self._begin_to_lead(history, role)

    def _begin_to_lead(self, history: PartitionHistory, role: Lead) -> None:
        opened = history.open(role.leader_epoch)
        if opened is None:
            return
        log: Any
        log, high_watermark = opened
        replica = Replica(
            *(self.node_id,), log_end=log.log_end_offset, durable=high_watermark, high_watermark=high_watermark, synced=True
        )
        sync: Any = _Sync(self, history, log, role.leader_epoch)
        partition = sync.partition = Partition(
            *(history.key, history.topic, log, replica, CONFIG, sync, lambda one: self.effects.add(one), TopicTraffic())
        )
        self.simulator.log_event("%s leads %s in epoch %d from %d", self.name, history, role.leader_epoch, log.log_end_offset)
        log.epochs.assign(role.leader_epoch, log.log_end_offset)
        replica.configure(synced=True, min_in_sync=1)
        replica.become_leader(role)
        self.partitions.by_key[history.key] = partition
        sync.request_round(partition)
        sync.start_round()
