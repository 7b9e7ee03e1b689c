"""The controller's decisions on one partition, made by its own core, and the image of them as each node comes to see it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.partition_table import TopicPartitions, Versions
from libs.cluster.records import STORAGE, InSync, Member, PartitionState, Replica, Topic
from libs.rpc.contracts.controller import AlterPartitionsReply
from libs.rpc.messages.errors import RpcError
from services.controller.core.elections import leader_election
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import LiveNode, live_nodes
from services.controller.core.partitions import isr_changes, partition_reconciler
from services.controller.core.partitions.partition_states import follows_the_table
from tests.simulation.replication.member import KEY, TOPIC, StorageMember
from tests.simulation.replication.network import Network
from tests.simulation.replication.simulator import NO_PROCESS, Simulator

TOPICS = {KEY[0]: Topic(TOPIC, KEY[0].hex(), 1)}


class Controller:
    """`on_write` hears of each state that is written. It never fails: who loses its office is for runs of whole clusters."""

    def __init__(
        self, simulator: Simulator, network: Network, configs: Mapping[str, str], on_write: Callable[[PartitionState], None]
    ) -> None:
        self._simulator, self._network, self._on_write = simulator, network, on_write
        self._random = simulator.stream("office")
        self.nodes: Sequence[StorageMember] = ()
        self.members: dict[int, Member] = {}
        self.overrides = {("topic", TOPIC): dict(configs)}
        first = InSync(1, 1)
        self.state = PartitionState(
            tuple(Replica(node, "d") for node in (1, 2, 3)), 1, 1, 0, 0, (first, InSync(2, 1), InSync(3, 1))
        )
        self.revision = 1
        self.image = self._make_image()
        self._settling = False
        self.lateness = 0.0
        """Of what nodes see of the metadata, in seconds."""

    @property
    def synced(self) -> bool:
        return self.overrides["topic", TOPIC]["durability"] == "synced"

    @property
    def live(self) -> dict[int, LiveNode]:
        return live_nodes(self.members)

    # -- who is there -----------------------------------------------------------------------------------------------------

    def register(self, node: StorageMember, *, stopping: bool = False) -> None:
        member = Member(
            STORAGE,
            node.node_id,
            node.incarnation,
            "",
            tcp_address=f"tcp:{node.node_id}",
            log_dirs=("d",),
            survived_from=node.survived_from,
            stopping=stopping,
        )
        node.registration = member
        self._members({**self.members, node.node_id: member})

    def drop(self, node_id: int, incarnation: int) -> None:
        """Takes a node for dead."""
        member = self.members.get(node_id)
        if member is not None and member.incarnation == incarnation:
            self._members({node: known for node, known in self.members.items() if node != node_id})

    def _members(self, members: dict[int, Member]) -> None:
        self._simulator.log_event("  members %s", {node: member.incarnation for node, member in members.items()})
        self.members = members
        self._changed()
        self.settle_soon()

    # -- decisions --------------------------------------------------------------------------------------------------------

    def write(self, state: PartitionState) -> None:
        before, self.state = self.state, state
        isr = [tuple(member) for member in state.isr]
        self._simulator.log_event(
            "  leader %d, epoch %d.%d, isr %s", state.leader, state.leader_epoch, state.partition_epoch, isr
        )
        led = (before.leader, before.leader_incarnation) != (state.leader, state.leader_incarnation)
        if not follows_the_table(before, state) or (led and state.leader_epoch <= before.leader_epoch):
            self._simulator.violation(f"2, 6: {before}, then {state}")
        if state.leader >= 0 and InSync(state.leader, state.leader_incarnation) not in state.isr:
            self._simulator.violation(f"6: the leader is not in its ISR: {state}")
        self._on_write(state)
        self._changed()

    def alter(self, request: object) -> AlterPartitionsReply:
        """Raises RpcError."""
        asked: Any = request
        try:
            decision = isr_changes.alter_partitions(self.image, asked, self.live, lambda _: self.synced)
        except Refused as refused:
            raise RpcError(int(refused.error), str(refused)) from refused
        for _, _, state in decision.changed:
            self.write(state)
        return AlterPartitionsReply(tuple(replace(each, error=int(each.error)) for each in decision.results), self.revision)

    def lead(self, member: InSync) -> None:
        """Elects the leader that an operator chose among the eligible replicas."""
        led = leader_election.led_by(self.state, member)
        if led is not self.state:
            self.write(replace(led, partition_epoch=self.state.partition_epoch + 1))

    def configure(self, name: str, value: str) -> None:
        self.overrides = {("topic", TOPIC): {**self.overrides["topic", TOPIC], name: value}}
        self._changed()

    def settle_soon(self) -> None:
        if not self._settling:
            self._settling = True
            self._simulator.loop.call_later(0.03 * self._random.random(), self._settle, context=NO_PROCESS)

    def _settle(self) -> None:
        self._settling = False
        settled = partition_reconciler.reconcile(self.state, self.live, synced=self.synced)
        if settled is not self.state:
            self.write(settled)
        if self.state.leader < 0:
            self._simulator.loop.call_later(0.05, self._ask_logs, context=NO_PROCESS)

    def _ask_logs(self) -> None:
        question = leader_election.log_end_query(self.state, self.live, synced=self.synced, unclean=False)
        if question is None:
            return
        reaches = {}
        for node in self.nodes:
            if node.in_sync in question.candidates and node.partition is not None:
                log = node.log
                latest = log.epochs.epoch_for(log.log_end_offset - 1) if log.batches else -1
                reaches[node.in_sync] = leader_election.ReplicaLogEnd(latest, log.log_end_offset)
        elected = leader_election.elect_by_logs(self.state, question, reaches)
        if elected is not None:
            self.write(elected)
            self.settle_soon()

    # -- the image --------------------------------------------------------------------------------------------------------

    def _make_image(self) -> ClusterImage:
        table = {KEY[0]: TopicPartitions((self.state,), (Versions(1, self.revision),))}
        return ClusterImage(
            revision=self.revision,
            topics={TOPIC: TOPICS[KEY[0]]},
            topics_by_id=TOPICS,
            members_by_role={STORAGE: self.members},
            overrides_by_resource=self.overrides,
            partition_table=table,
        )

    def _changed(self) -> None:
        self.revision += 1
        self.image = self._make_image()
        for node in self.nodes:
            self.show(node)

    def show(self, node: StorageMember) -> None:
        """Shows a node the image after a while; a later image may come first."""
        if node.life is not None:
            at = self._network.arrival(0, node.node_id, self._simulator.loop.time() + self.lateness * self._random.random())
            self._simulator.loop.call_at(at, node.see, self.image, context=node.context)
