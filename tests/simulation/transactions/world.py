"""The processes of one run, the metadata that they share, and the image of it as each comes to see it."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from libs.cluster.image import ClusterImage
from libs.cluster.partition_table import TopicPartitions, Versions
from libs.cluster.records import STORAGE, TRANSACTION_COORDINATOR, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from services.storage.partition.partition import Key
from tests.simulation.replication.simulator import NO_PROCESS, Simulator
from tests.simulation.transactions.checks import DATA, Checks
from tests.simulation.transactions.network import Network, Process, Server
from tests.simulation.transactions.partition_history import PartitionHistory

if TYPE_CHECKING:
    from tests.simulation.transactions.storage_node import StorageNode

DATA_ID, SHARDS_ID = b"d" * 16, b"s" * 16
NODES, COORDINATORS = (1, 2, 3), (11, 12)
BEGAN_MS = 1_700_000_000_000
LONG_TURNS, MANY_SHARDS = range(100, 1 << 62, 4), 4
"""The seeds of runs whose coordinators get several requests in a turn, and the shards in these, which have one leader. Planted
bugs are caught by seeds before them."""
TOPIC_NAMES = {DATA_ID: DATA, SHARDS_ID: TRANSACTION_TOPIC}


class World:
    """`make_node` and `make_coordinator` make lives of processes."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.simulator = Simulator(seed, verbose=verbose)
        self.random = self.simulator.random
        self.network = Network(self.simulator)
        self.producer_ids = itertools.count(100)
        self.make_node: Callable[[int, int], StorageNode]
        self.make_coordinator: Callable[[int, int], Server]
        counts = {DATA_ID: self.random.randint(2, 4), SHARDS_ID: self.random.choice((1, 1, 2))}
        self.long_turns = seed in LONG_TURNS
        if self.long_turns:
            counts[SHARDS_ID] = MANY_SHARDS
        self.joined_appends = 0
        """Requests to a leader that brought appends of several shards."""
        self.topics = {topic_id: Topic(TOPIC_NAMES[topic_id], topic_id.hex(), count) for topic_id, count in counts.items()}
        self.histories: dict[Key, PartitionHistory] = {
            (topic_id, index): PartitionHistory(
                (topic_id, index), TOPIC_NAMES[topic_id], self.random, lambda *batches: self.checks.committed(*batches)
            )
            for topic_id, count in counts.items()
            for index in range(count)
        }
        self.checks = Checks(self.simulator, self.histories)
        self.disk_slowness: dict[Key, float] = {}
        self.image_lateness_s = 0.0
        self.nodes: dict[int, StorageNode] = {}
        self.coordinators: dict[int, Server] = {}
        self.clients: list[Process] = []
        self.owners = dict.fromkeys(range(counts[SHARDS_ID]), ("", 0))
        """The owner and owner epoch of each shard."""
        self.image = ClusterImage()

    def begin(self) -> None:
        for node_id in NODES:
            self.start_node(node_id)
        for node_id in COORDINATORS:
            self.start_coordinator(node_id)
        for history in self.histories.values():
            self.elect(history)
        for shard in self.owners:
            self.assign(shard)

    @property
    def wall_ms(self) -> int:
        return BEGAN_MS + int(self.simulator.loop.time() * 1000)

    @property
    def data(self) -> list[PartitionHistory]:
        return [history for history in self.histories.values() if history.topic == DATA]

    @property
    def processes(self) -> list[Process]:
        return [*self.nodes.values(), *self.coordinators.values(), *self.clients]

    def later(self, seconds: float, work: Callable[..., object], *args: object) -> None:
        """Does something that no process does."""
        self.simulator.loop.call_later(seconds, work, *args, context=NO_PROCESS)

    # -- processes --------------------------------------------------------------------------------------------------------

    def start_node(self, node_id: int) -> None:
        former = self.nodes.get(node_id)
        if former is None or not former.alive:
            self.nodes[node_id] = self.make_node(node_id, former.incarnation + 1 if former is not None else 1)
            self.changed()

    def start_coordinator(self, node_id: int) -> None:
        former = self.coordinators.get(node_id)
        if former is None or not former.alive:
            self.coordinators[node_id] = self.make_coordinator(node_id, former.incarnation + 1 if former is not None else 1)
            self.changed()

    def process_of(self, member: Member) -> Process:
        """The process whose registration that is, or its successor. A connection to a dead one fails."""
        return self.nodes[member.node_id] if member.role == STORAGE else self.coordinators[member.node_id]

    def shard_of(self, transactional_id: str) -> int:
        return shard_of(transactional_id, len(self.owners))

    # -- what the controller decides --------------------------------------------------------------------------------------

    def elect(self, history: PartitionHistory) -> None:
        living = [node for node in self.nodes.values() if node.alive]
        if living:
            node = living[0] if self.long_turns and history.topic == TRANSACTION_TOPIC else self.random.choice(living)
            lost = history.elect(node.node_id, node.incarnation)
            self.simulator.log_event(
                "  %s: node %d leads in epoch %d, %d batches are lost", history, *self._leader(history), lost
            )
            self.changed()

    def _leader(self, history: PartitionHistory) -> tuple[int, int]:
        return history.leader, history.leader_epoch

    def assign(self, shard: int) -> None:
        living = [process for process in self.coordinators.values() if process.alive]
        if living:
            owner = self.random.choice(living).owner
            self.owners[shard] = str(owner), self.owners[shard][1] + 1
            self.simulator.log_event("  shard %d belongs to %s, owner epoch %d", shard, *self.owners[shard])
            self.changed()

    # -- the image --------------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        self.image = self._make_image(self.image.revision + 1)
        for process in self.processes:
            self.show(process)

    def show(self, process: Process) -> None:
        """Shows a process the image after a while; a later image may come first."""
        if process.alive:
            delay_s = 0.001 + 0.005 * self.random.random() + self.image_lateness_s * self.random.random() ** 2
            delay_s = max(delay_s, process.deaf_until - self.simulator.loop.time())
            process.soon(delay_s, process.see, self.image)

    def _make_image(self, revision: int) -> ClusterImage:
        table = {}
        for topic_id, topic in self.topics.items():
            states = tuple(self._state(self.histories[topic_id, index]) for index in range(topic.partitions))
            table[topic_id] = TopicPartitions(states, (Versions(1, revision),) * len(states))
        nodes = {node_id: _registration(node) for node_id, node in self.nodes.items()}
        coordinators = {node_id: _registration(process) for node_id, process in self.coordinators.items()}
        return ClusterImage(
            revision=revision,
            topics={topic.name: topic for topic in self.topics.values()},
            topics_by_id=self.topics,
            members_by_role={STORAGE: nodes, TRANSACTION_COORDINATOR: coordinators},
            partition_table=table,
        )

    def _state(self, history: PartitionHistory) -> PartitionState:
        leader, incarnation = history.leader, history.leader_incarnation
        owner, owner_epoch = self.owners[history.key[1]] if history.topic == TRANSACTION_TOPIC else ("", 0)
        isr = (InSync(leader, incarnation),) if leader >= 0 else ()
        replicas = (Replica(leader, "d"),) if leader >= 0 else ()
        epochs = history.leader_epoch, history.partition_epoch
        return PartitionState(replicas, leader, incarnation, *epochs, isr, owner, owner_epoch)


def _registration(server: Server) -> Member:
    return Member(server.role, server.node_id, server.incarnation, "", tcp_address=f"tcp:{server.node_id}")
